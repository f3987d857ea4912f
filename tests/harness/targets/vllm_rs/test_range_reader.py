"""Reading a remote file in pieces: what is taken, and what ends the attempt."""

from __future__ import annotations

import io
import re
import zipfile

import pytest

from harness.targets.vllm_rs import range_reader
from harness.targets.vllm_rs.range_reader import RangeReader, RangesRefusedError

CONTENT = bytes(range(256)) * 4096


class Answer:
    def __init__(self, status, headers, body):
        self.status_code = status
        self.headers = headers
        self.raw = io.BytesIO(body)
        self.closed = False

    def close(self):
        self.closed = True


class Server:
    """A session whose server serves ``content``; ``change`` alters an answer, by its number."""

    def __init__(self, content=CONTENT, change=None):
        self.content = content
        self.change = change or (lambda number, answer: answer)
        self.asked = []
        self.answers = []

    def get(self, url, *, headers, stream):
        assert stream
        assert headers["Accept-Encoding"] == "identity"
        self.asked.append(headers["Range"])
        first, last = re.fullmatch(r"bytes=(\d*)-(\d+)", headers["Range"]).groups()
        size = len(self.content)
        start = int(first) if first else max(0, size - int(last))
        stop = int(last) + 1 if first else size
        told = {"Content-Range": f"bytes {start}-{stop - 1}/{size}", "ETag": "one"}
        answer = self.change(len(self.asked), Answer(206, told, self.content[start:stop]))
        self.answers.append(answer)
        return answer


def with_headers(**headers):
    def change(_number, answer):
        answer.headers = {**answer.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        return answer

    return change


def test_the_end_is_asked_for_first_and_what_is_held_is_not_asked_for_again():
    server = Server()
    reader = RangeReader(server, "there", tail=1000)
    reader.seek(-10, io.SEEK_END)
    assert reader.read() == CONTENT[-10:]
    assert reader.tell() == reader.size == len(CONTENT)
    reader.seek(-1000, io.SEEK_CUR)
    assert reader.read(5) == CONTENT[-1000:-995]
    assert server.asked == ["bytes=-1000"]
    assert (reader.fetched, reader.requests) == (1000, 1)


def test_a_read_elsewhere_asks_for_a_piece_and_joins_it_with_what_is_held():
    server = Server()
    reader = RangeReader(server, "there", tail=1000)
    start = len(CONTENT) - 1500
    reader.seek(start)
    assert reader.read(1000) == CONTENT[start : start + 1000]
    assert server.asked[1:] == [f"bytes={start}-{len(CONTENT) - 1}"]


def test_a_file_shorter_than_the_tail_is_one_answer():
    server = Server(b"short")
    assert RangeReader(server, "there").read() == b"short"
    assert len(server.asked) == 1


def test_near_pieces_are_asked_for_together_and_held_ones_not_at_all():
    server = Server()
    reader = RangeReader(server, "there", tail=1000)
    far = 3 * range_reader.GAP_BYTES
    reader.prefetch([(50, 60), (0, 10), (far, far + 5), (len(CONTENT) - 20, len(CONTENT))])
    assert server.asked[1:] == ["bytes=0-59", f"bytes={far}-{far + 4}"]
    assert reader.read(60) == CONTENT[:60]
    assert len(server.asked) == 3


def test_an_archive_is_read_through_it():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("first", bytes(500_000))
        archive.writestr("second", b"here")
    server = Server(file.getvalue())
    reader = RangeReader(server, "there", tail=200)
    with zipfile.ZipFile(reader) as archive:
        assert archive.read("second") == b"here"
    assert reader.fetched < 200_000


def test_an_answer_that_breaks_off_is_asked_for_once_more():
    def change(number, answer):
        if number == 1:
            answer.raw = io.BytesIO(answer.raw.read(100))
        return answer

    server = Server(change=change)
    reader = RangeReader(server, "there", tail=1000)
    assert reader.read(0) == b""
    assert server.asked == ["bytes=-1000"] * 2
    assert reader.fetched == 1100


def test_a_whole_answer_is_refused_and_its_body_not_read():
    def change(_number, answer):
        answer.status_code = 200
        return answer

    server = Server(change=change)
    with pytest.raises(RangesRefusedError, match="with the whole file"):
        RangeReader(server, "there", tail=1000)
    (answer,) = server.answers
    assert answer.closed
    assert answer.raw.tell() == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_headers(Content_Range="items 1-2/3"), "Content-Range is 'items 1-2/3'"),
        (with_headers(Content_Range="bytes 0-999/*"), "Content-Range is"),
        (with_headers(Content_Range="bytes 0-999/5000"), "is not the end of the file"),
        (with_headers(Content_Range="bytes 9-1/5000"), "is not what was asked for"),
        (with_headers(Content_Range="bytes 0-9999/5000"), "is not what was asked for"),
        (with_headers(Content_Encoding="gzip"), "encodes the body"),
    ],
)
def test_an_unusual_first_answer_ends_the_attempt(change, words):
    with pytest.raises(RangesRefusedError, match=re.escape(words)):
        RangeReader(Server(change=change), "there", tail=1000)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"ETag": "two"}, "changed between two requests"),
        ({"Content_Range": f"bytes 0-{len(CONTENT)}/{len(CONTENT) + 1}"}, "changed between"),
        ({"Content_Range": f"bytes 1-99/{len(CONTENT)}"}, "is not what was asked for"),
    ],
)
def test_a_file_that_changes_meanwhile_ends_the_attempt(headers, words):
    later = with_headers(**headers)
    server = Server(change=lambda number, a: later(number, a) if number > 1 else a)
    reader = RangeReader(server, "there", tail=1000)
    with pytest.raises(RangesRefusedError, match=words):
        reader.read(10)


def test_a_piece_that_is_too_large_for_a_wheel_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(range_reader, "SPAN_BYTES_MAX", 100_000)
    server = Server()
    reader = RangeReader(server, "there", tail=1000)
    with pytest.raises(RangesRefusedError, match="more than a wheel's member can have"):
        reader.read(200_000)
    assert len(server.asked) == 1


def test_a_broken_connection_is_a_short_answer_and_a_fault_of_ours_is_none():
    broken = type("ProtocolError", (Exception,), {"__module__": "pip._vendor.urllib3.exceptions"})

    class Breaking(io.BytesIO):
        error = broken("reset")

        def read(self, size=-1):
            raise self.error

    def change(_number, answer):
        answer.raw = Breaking()
        return answer

    with pytest.raises(RangesRefusedError, match="broke off"):
        RangeReader(Server(change=change), "there")
    Breaking.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        RangeReader(Server(change=change), "there")
