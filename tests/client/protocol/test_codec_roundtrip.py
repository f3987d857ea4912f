"""What is encoded decodes to the same message, for every message and every release."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.protocol.codec import Codec
from client.protocol.messages import Abort, Add
from client.protocol.profiles import RELEASES, profile_for

few = settings(max_examples=5, deadline=None, derandomize=True, database=None)
each_release = pytest.mark.parametrize("release", RELEASES)
DATA = st.data()


@each_release
@few
@given(data=DATA)
def test_add_roundtrips(make, release, data):
    codec = Codec(profile_for(release))
    request = data.draw(make.requests(codec.profile))
    aux = data.draw(st.lists(st.binary(max_size=4), max_size=2))
    kind, *body = codec.encode_add(request, aux)
    decoded = codec.decode_engine_input([kind, *body])
    assert decoded == Add(request=request, aux=tuple(body[1:]))
    assert list(decoded.aux[: len(aux)]) == aux
    assert codec.encode_add(decoded.request, aux) == [kind, *body]


@each_release
@few
@given(data=DATA)
def test_outputs_roundtrip(make, release, data):
    codec = Codec(profile_for(release))
    message = data.draw(make.outputs(codec.profile))
    frames = codec.encode_outputs(message)
    assert codec.decode_outputs(frames) == message
    assert codec.encode_outputs(codec.decode_outputs(frames)) == frames


@each_release
@few
@given(data=DATA)
def test_engine_inputs_roundtrip(make, release, data):
    codec = Codec(profile_for(release))
    ids = tuple(data.draw(st.lists(make.TEXT, max_size=3)))
    assert codec.decode_engine_input(codec.encode_abort(ids)) == Abort(request_ids=ids)
    call = data.draw(make.UTILITIES)
    assert codec.decode_engine_input(codec.encode_utility(call)) == call
    wave = data.draw(make.WAVES)
    assert codec.decode_engine_input(codec.encode_start_wave(wave)) == wave


@each_release
@few
@given(data=DATA)
def test_startup_messages_roundtrip(make, release, data):
    codec = Codec(profile_for(release))
    hello, ready, init = (data.draw(s) for s in (make.HELLOS, make.READYS, make.INITS))
    assert codec.decode_hello_or_ready(codec.encode_hello(hello)) == hello
    assert codec.decode_hello_or_ready(codec.encode_ready(ready)) == ready
    assert codec.decode_init(codec.encode_init(init)) == init


@each_release
def test_ready_response_roundtrips(make, release):
    codec = Codec(profile_for(release))
    response = make.ready_response(codec.profile)
    assert codec.decode_ready_response(codec.encode_ready_response(response)) == response


@each_release
@few
@given(data=DATA)
def test_coordinator_messages_roundtrip(make, release, data):
    codec = Codec(profile_for(release))
    publish, notice = data.draw(make.PUBLISHES), data.draw(make.NOTICES)
    assert codec.decode_publish(codec.encode_publish(publish)) == publish
    assert codec.decode_first_request(codec.encode_first_request(notice)) == notice
