"""Wrong scenario files of every kind: each mistake gives one message, at its line, before a run.

Each case is what stands below the head of a file: its text, the place of the mistake (the first
line of the text is line 1), the title of the message, and the last thing that it says.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.scenario.loader import parse
from harness.scenario.problems import ScenarioFileError
from harness.verdict import ExitCode

HEAD = "title: t\npromise: p\nrefs: [vllm#1]\n"
HEAD_LINES = HEAD.count("\n")
# fmt: off
CASES = [
    ('steps:\n  - http: {id: m, path: metrics}\n', '2:25', "path 'metrics' does not begin with a slash", "such as '/metrics'"),
    ("steps:\n  - http: {id: m, path: '/sleep?level=1'}\n", '2:25', "a path has no '?'", "key 'query' for parameters, or %3F for the character itself"),
    ('steps:\n  - http: {id: m, path: /x, verb: get}\n', '2:35', 'invalid value of steps[0].http.verb', 'a method in capital letters, such as GET'),
    ('steps:\n  - http: {id: m, path: /x, verb: "GET /\\r\\n"}\n', '2:35', 'invalid value of steps[0].http.verb', 'a method in capital letters, such as GET'),
    ("steps:\n  - http: {id: m, path: /x, headers: {'X A': b}}\n", '2:46', "'X A' is no name of a header", "letters, digits and !#$%&'*+-.^_`|~"),
    ('steps:\n  - http:\n      id: m\n      path: /x\n      headers:\n        X-A: "b\\r\\nX-B: c"\n', '6:14', "the value of header 'X-A' has '\\r', which no header carries", 'one line of text'),
    ('steps:\n  - http: {id: m, path: /x, headers: {X-A: 1}}\n', '2:44', 'invalid value of steps[0].http.headers.X-A', 'text'),
    ('steps:\n  - http: {id: m, path: /x, send: half}\n', '2:35', 'there is no body to send half of', "key 'body' or 'text'"),
    ('steps:\n  - http: {id: m, path: /x, send: hlaf, body: {}}\n', '2:35', 'invalid value of steps[0].http.send', "did you mean 'half'?"),
    ('steps:\n  - http: {id: m, path: /x, send: nothing, body: {a: 1}}\n', '2:50', "send: nothing says nothing, and 'body' is for what is said", "no 'body', or another send"),
    ('steps:\n  - http: {id: m, path: /x, again: true, behind: x}\n', '2:36', 'behind and again exclude each other: each is the next on the connection', ''),
    ('steps:\n  - http: {id: m, path: /x, headers: {host: a}}\n', '2:39', "every request has a header 'Host' already", 'no second one'),
    ('steps:\n  - http: {id: m, path: /x, read: go}\n', '2:35', "gate 'go' is never opened", "a step 'open: go', or 'go' in open_at_end"),
    ('steps:\n  - http: {id: m, path: /x, header: {}}\n', '2:29', "unknown key 'header' in steps[0].http", "did you mean 'headers'?"),
    ('steps:\n  - http: {id: m, path: /x, connections: 0}\n', '2:42', 'invalid value of steps[0].http.connections', 'at least 1'),
    ('steps:\n  - grpc: {id: p, method: Control/IsPausd}\n', '2:27', "no release has a gRPC method 'Control/IsPausd'", "did you mean 'Control/IsPaused'?"),
    ('steps:\n  - grpc: {id: p, method: Contol/IsPaused}\n', '2:27', "no release has a gRPC method 'Contol/IsPaused'", "did you mean 'Control/IsPaused'?"),
    ('steps:\n  - grpc: {id: p, method: IsPaused}\n', '2:27', "'IsPaused' is no name of a gRPC method", 'Service/Method, such as Control/IsPaused'),
    ('steps:\n  - grpc:\n      id: p\n      method: Control/Sleep\n      request:\n        lvel: 1\n', '6:9', "gRPC message SleepRequest has no field 'lvel'", "did you mean 'level'?"),
    ('steps:\n  - grpc:\n      id: p\n      method: Inference/Generate\n      request:\n        stopping: {max_new_token: 3}\n', '6:20', "gRPC message StoppingCriteria has no field 'max_new_token'", "did you mean 'max_new_tokens'?"),
    ('steps:\n  - grpc: {id: p, method: Control/Sleep, request: {level: deep}}\n', '2:59', "'deep' is no value of gRPC field 'level'", 'a whole number from 0 to 4294967295 (uint32)'),
    ('steps:\n  - grpc: {id: p, method: Control/Sleep, request: {mode: ABORT}}\n', '2:58', "gRPC enumeration PauseMode has no value 'ABORT'", 'one of PAUSE_MODE_UNSPECIFIED, PAUSE_MODE_ABORT, PAUSE_MODE_WAIT, PAUSE_MODE_KEEP'),
    ('steps:\n  - grpc: {id: p, method: Control/IsPaused, metadata: {X-A: b}}\n', '2:56', "'X-A' is no name of metadata", 'lower-case letters, digits and -_.'),
    ('steps:\n  - grpc: {id: p, method: Control/IsPaused, wire: xyz}\n', '2:51', 'invalid value of steps[0].grpc.wire', "bytes in hexadecimal, such as '0a01'"),
    ("steps:\n  - grpc: {id: p, method: Control/Sleep, wire: '00', request: {level: 1}}\n", '2:48', 'request and wire exclude each other', ''),
    ('steps:\n  - call: {id: a, surface: grpc, body: {stop: [a]}}\n', '2:41', "gRPC message GenerateRequest has no field 'stop'", "did you mean 'stopping'?"),
    ('steps:\n  - call: {id: a, surface: htpp}\n', '2:28', 'invalid value of steps[0].call.surface', "did you mean 'http'?"),
    ("steps:\n  - call: {id: a, headers: {'X-A': ' b'}}\n", '2:29', "the value of header 'X-A' begins or ends with a space, which is no part of it", 'text without spaces round it'),
    ('steps:\n  - call: {id: "a\\nb"}\n', '2:16', 'invalid value of steps[0].call.id', 'one line of text without control characters'),
    ('steps:\n  - call: {id: a, request_id: "a\\r\\nX: 1"}\n', '2:31', "the value of key 'request_id' has '\\r', which no header carries", 'one line of text'),
    ('steps:\n  - call: {id: a, prompt: [1, -1]}\n', '2:31', '-1 is no token id', "0 to 4294967295; other numbers can be sent by key 'body'"),
    ('steps:\n  - call: {id: a, max_tokens: 0}\n', '2:31', 'invalid value of steps[0].call.max_tokens', 'at least 1'),
    ("steps:\n  - call: {id: ''}\n", '2:16', 'invalid value of steps[0].call.id', 'text that is not empty'),
    ('steps:\n  - utility: {id: u, method: sleep, via: metod}\n', '2:42', 'invalid value of steps[0].utility.via', "did you mean 'method'?"),
    ('steps:\n  - utility: {id: u, method: sleep, timeout_s: -1}\n', '2:48', 'invalid value of steps[0].utility.timeout_s', 'more than 0'),
    ('steps:\n  - crowd: {id: c, leave: after-ad}\n', '2:27', 'invalid value of steps[0].crowd.leave', "did you mean 'after-add'?"),
    ('steps:\n  - crowd: {id: c, callers: 3}\n  - call: {id: c-1}\n', '3:16', "operation 'c-1' is started twice", ''),
    ('steps:\n  - crowd: {id: c, callers: 3}\n  - finish: c\n', '3:13', "operation 'c' was never started before this step", 'one of c-0, c-1, c-2'),
    ('steps:\n  - sample: {id: s}\n  - sample: {id: s}\n', '3:18', "sample 's' is taken twice", ''),
    ('steps:\n  - sample: {id: s}\n  - expect: {process: {since: s, rss_mb_at_most: -1}}\n', '3:50', 'invalid value of steps[1].expect.process.rss_mb_at_most', 'at least 0'),
    ('steps:\n  - signal: SIGTERM\n', '2:13', 'invalid value of steps[0].signal', "did you mean 'TERM'?"),
    ("steps:\n  - wait: {event: start_wave, where: {wave: '1'}}\n", '2:45', "field 'wave' of event 'start_wave' is never text '1'", 'a number'),
    ('steps:\n  - call: {id: a}\n  - wait: {event: start_wave, request: a}\n', '3:40', "event 'start_wave' is not about a request, so it is never of 'a'", "no key 'request'"),
    ('steps:\n  - expect: {count: {event: add, at_least: 3, at_most: 2}}\n', '2:56', 'no count is at least 3 and at most 2', ''),
    ('steps:\n  - expect: {count: {event: add, equals: -1}}\n', '2:42', 'invalid value of steps[0].expect.count.equals', 'at least 0'),
    ('steps:\n  - expect: {count: {event: add, at_least: 0}}\n', '2:44', 'invalid value of steps[0].expect.count.at_least', 'at least 1'),
    ('steps:\n  - engine: {engine: 0, do: {wave_complete: 99999999999999999999}}\n', '2:45', '99999999999999999999 does not fit into 64 bits, so no message carries it', '-9223372036854775808 to 18446744073709551615'),
    ("steps:\n  - engine: {engine: 0, do: {raw: {frames: ['zz']}}}\n", '2:29', "frame 'zz' is neither hexadecimal nor of the form 'text:…' or 'json:…'", ''),
    ('steps:\n  - coordinator: {publish: [null, 3, false]}\n', '2:18', 'there is no external coordinator to act on', 'topology: {coordinator: external, transport: bootstrapped}'),
    ('topology: {coordinator: external, transport: bootstrapped}\nsteps:\n  - coordinator: {publish: [null, three, false]}\n', '3:35', "text 'three' is no wave of a publish", 'the number of a wave; publish_raw for anything else'),
    ('topology: {coordinator: external, transport: bootstrapped}\nsteps:\n  - coordinator: {stop: false}\n', '3:25', 'the step does nothing', 'stop: true'),
    ('steps:\n  - load: {clients: 0}\n', '2:21', 'invalid value of steps[0].load.clients', 'at least 1'),
    ('steps:\n  - shutdown: {timeout_s: -1}\n', '2:27', 'invalid value of steps[0].shutdown.timeout_s', 'at least 0'),
    ('steps:\n  - call: {id: a}\n  - expect: {op: a, outcome: finshed}\n', '3:30', 'invalid value of steps[1].expect.outcome', "did you mean 'finished'?"),
    ('steps:\n  - call: {id: a}\n  - expect: {op: a, outcome: failed, error: EngineCoreDaed}\n', '3:45', "no error is called 'EngineCoreDaed'", "did you mean 'EngineCoreDead'?"),
    ('steps:\n  - call: {id: a}\n  - expect: {op: a, finish: lenght}\n', '3:29', 'invalid value of steps[1].expect.finish', "did you mean 'length'?"),
    ('steps:\n  - call: {id: a, surface: grpc}\n  - expect: {op: a, status: 200}\n', '3:29', 'no gRPC call has status the number 200', 'one of OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED'),
    ('steps:\n  - http: {id: m, path: /x}\n  - expect: {op: m, status: OK}\n', '3:29', "no HTTP answer has status text 'OK'", 'a number from 100 to 599'),
    ('steps:\n  - http: {id: m, path: /x}\n  - expect: {op: m, value: null}\n', '3:28', "'value' is nothing that a http step shows", 'one of body, body_text, error, outcome, status'),
    ("steps:\n  - call: {id: a}\n  - expect: {op: a, outcome: failed, message: ''}\n", '3:47', "'message' is empty, and so in every text", 'a fragment'),
    ('steps:\n  - expect: {engine: 0, state: {lora: [1]}}\n', '2:33', "an engine's state has no 'lora'", "did you mean 'loras'?"),
    ('steps:\n  - expect: {healthy: false, health_error: EngineDead}\n', '2:44', "no error is called 'EngineDead'", "did you mean 'EngineCoreDead'?"),
    ('steps:\n  - expect: {exit_code: 300}\n', '2:25', 'invalid value of steps[0].expect.exit_code', 'at most 255'),
    ('steps:\n  - expect:\n      metrics:\n        \'vllm:request_succes_total{engine="0",finished_reason="stop"}\': 0\n', '4:9', "no release has a metric 'vllm:request_succes_total'", "did you mean 'vllm:request_success_total'?"),
    ("steps:\n  - expect: {metrics: {'vllm:request_success': 0}}\n", '2:24', "'vllm:request_success' is a counter, whose samples have longer names", 'vllm:request_success_total'),
    ('steps:\n  - expect: {metrics: {\'vllm:request_success_total{engine="0",reason="stop"}\': 0}}\n', '2:24', "'vllm:request_success_total' has no label 'reason'", 'one of engine, finished_reason'),
    ('steps:\n  - expect: {metrics: {\'vllm:request_success_total{engine="0",finished_reason="stopp"}\': 0}}\n', '2:24', "label 'finished_reason' of 'vllm:request_success' is never 'stopp'", "did you mean 'stop'?"),
    ('steps:\n  - expect: {metrics: {\'vllm:num_requests_running{engine="5"}\': 0}}\n', '2:24', "label 'engine' of 'vllm:num_requests_running' is never '5'", 'one of 0, 1'),
    ('steps:\n  - expect: {metrics: {\'vllm:request_success_total{finished_reason="stop",engine="0"}\': 0}}\n', '2:24', 'labels are not in order, each once', 'vllm:request_success_total{engine="0",finished_reason="stop"}'),
    ("steps:\n  - expect: {metrics: {'vllm:prompt_tokens_total': 0}}\n", '2:24', "label 'engine' is missing; a sample has all of its labels", 'engine'),
    ('steps:\n  - expect: {metrics: {\'vllm:prompt_tokens_total{engine="0"}\': -1}}\n', '2:64', '-1 is below 0, which no sample is', '0 or more'),
    ('profiles: \'<0.30\'\nsteps:\n  - expect: {metrics: {\'vllm:corrupted_requests_total{engine="0"}\': 0}}\n', '3:24', "'vllm:corrupted_requests' exists since 0.32.0, and this is judged up to 0.29.0", "a family of these releases, or other 'profiles' or 'when'"),
    ('steps:\n  - expect: {metrics: {}}\n', '2:23', 'the expectation names no sample', 'name{label="value"}: number'),
    ("steps:\n  - expect: {metrics: {'vllm:prompt_tokens_total{}': 0}}\n", '2:24', "'vllm:prompt_tokens_total{}' is no name of a sample", 'name, or name{label="value",…} without spaces'),
    ('topology: {coordinator: inprocess}\nsteps:\n  - fence: true\n', '1:25', 'invalid value of topology.coordinator', "did you mean 'in-process'?"),
    ('topology: {engines: 0}\nsteps:\n  - fence: true\n', '1:21', 'invalid value of topology.engines', 'at least 1'),
    ('topology: {config: {engine_count: -1}}\nsteps:\n  - fence: true\n', '1:35', 'invalid value of topology.config.engine_count', 'at least 0'),
    ("topology: {frontend_env: {'A=B': c}}\nsteps:\n  - fence: true\n", '1:34', "'A=B' is no name of an environment variable", "no '=' in it"),
    ("topology: {frontend_args: ['--x', 4]}\nsteps:\n  - fence: true\n", '1:35', 'invalid value of topology.frontend_args[1]', 'text'),
    ('engines:\n  - rules: [{on: add, method: sleep, do: {drop: true}}]\nsteps:\n  - fence: true\n', '2:31', "'method' does not go with on: add, so the rule matches nothing", 'on: utility'),
    ('engines:\n  - rules: [{on: utility, request: a, do: {drop: true}}]\nsteps:\n  - fence: true\n', '2:36', "'request' does not go with on: utility, so the rule matches nothing", 'on: abort or add'),
    ('engines:\n  - rules: [{on: start_wave, where: {wave: one}, do: {drop: true}}]\nsteps:\n  - fence: true\n', '2:44', "field 'wave' of message 'start_wave' is never text 'one'", 'a number'),
    ('engines:\n  - rules: [{on: add, do: {drop: true, hang: true}}]\nsteps:\n  - fence: true\n', '2:27', 'an action has exactly one key, this one has drop, hang', ''),
    ('engines:\n  - rules: [{on: add, nth: 3, times: 2, do: {drop: true}}]\nsteps:\n  - fence: true\n', '2:38', 'rule takes message 3 only, and only the first 2', 'nth or times'),
    ('engines:\n  - rules: [{on: add, do: {stream: {tokens: 3, pause_at: 1}}}]\nsteps:\n  - fence: true\n', '2:58', 'the stream pauses for ever', "key 'gate'"),
    ('engines:\n  - rules: [{on: add, do: {stream: {tokens: 3, pause_at: 4, gate: g}}}]\nsteps:\n  - open: g\n', '2:58', 'the stream has 3 tokens, so it never pauses at 4', '0 to 3'),
    ('engines:\n  - rules: [{on: add, do: {stream: {error: {code: 1}}}}]\nsteps:\n  - fence: true\n', '2:44', 'only a stream with finish: error carries an error', ''),
    ('engines:\n  - {engine: 0, join: {identity: xyz}}\nsteps:\n  - fence: true\n', '2:34', "'xyz' is no hexadecimal text", "such as '00ff'"),
    ('engines:\n  - {engine: 0, join: {never: true, gate: g}}\nsteps:\n  - open: g\n', '2:43', "an engine that never joins has no 'gate'", ''),
    ('engines:\n  - {engine: 0, join: {skip: [helo]}}\nsteps:\n  - fence: true\n', '2:31', 'invalid value of engines[0].join.skip[0]', "did you mean 'hello'?"),
    ('known:\n  - {invariant: expectation, fixed_in: 0.28, reason: r, link: vllm#1}\nsteps:\n  - fence: true\n', '2:40', 'invalid value of known[0].fixed_in', 'text'),
    ('known:\n  - {target: vllm, invariant: expectation, reason: r, link: vllm#1}\nsteps:\n  - fence: true\n', '2:14', 'invalid value of known[0].target', "did you mean 'vllm-rs'?"),
    ("known:\n  - invariant: expectation\n    reason: r\n    link: vllm#1\n    measured:\n      - {release: '0.28.0', trials: 1, violations: 2}\nsteps:\n  - fence: true\n", '6:9', '2 violations in 1 trial cannot be', ''),
    ("known:\n  - invariant: expectation\n    reason: r\n    link: vllm#1\n    measured:\n      - {release: '0.28.0', trials: 1, violations: 1}\n      - {release: '0.28.0', trials: 1, violations: 1}\nsteps:\n  - fence: true\n", '7:19', 'release 0.28.0 was measured twice', 'one row for each'),
    ('open_at_end: [c]\nsteps:\n  - call: {id: a}\n', '1:15', "'c' is no gate and no operation", 'a'),
    ('steps:\n  - http: {id: m, path: /x}\n  - abort: m\n', '3:12', "'m' is no generation", 'the id of a call step'),
    ('steps:\n  - utility: {id: u, method: sleep}\n  - drop: u\n', '3:11', "'u' is no generation", 'the id of a call step'),
    ('steps:\n  - utility: {id: u, method: slep}\n', '2:30', "the API has no method 'slep'", "did you mean 'sleep'?"),
    ('steps:\n  - utility: {id: u, method: sleep, args: [1, abort, 3]}\n', '2:43', "'sleep' does not take 3 arguments", 'level, mode, of which 0 must be given'),
    ('steps:\n  - utility: {id: u, method: add_lora, args: [1]}\n', '2:47', "argument 'lora_request' of 'add_lora' is never the number 1", '[name, id, path], such as [sql, 1, /loras/sql]; via: raw sends any value'),
    ('steps:\n  - utility: {id: u, method: add_lora, args: [[]]}\n', '2:47', "argument 'lora_request' of 'add_lora' is never a list of 0", '[name, id, path], such as [sql, 1, /loras/sql]; via: raw sends any value'),
    ('steps:\n  - utility: {id: u, method: add_lora, args: [[a, 1]]}\n', '2:47', "argument 'lora_request' of 'add_lora' is never a list of 2", '[name, id, path], such as [sql, 1, /loras/sql]; via: raw sends any value'),
    ('steps:\n  - utility: {id: u, method: add_lora, args: [[a, one, /p]]}\n', '2:51', "argument 'lora_request' of 'add_lora' is never a list of 3", '[name, id, path], such as [sql, 1, /loras/sql]; via: raw sends any value'),
    ('steps:\n  - utility: {id: u, method: add_lora, args: [[a, 0, /p]]}\n', '2:51', "argument 'lora_request' of 'add_lora' is never a list of 3", '[name, id, path], such as [sql, 1, /loras/sql]; via: raw sends any value'),
    ('steps:\n  - utility: {id: u, method: add_lora, args: [[a, true, /p]]}\n', '2:51', "argument 'lora_request' of 'add_lora' is never a list of 3", '[name, id, path], such as [sql, 1, /loras/sql]; via: raw sends any value'),
    ('steps:\n  - utility: {id: u, method: add_lora, args: [a]}\n', '2:47', "argument 'lora_request' of 'add_lora' is never text 'a'", '[name, id, path], such as [sql, 1, /loras/sql]; via: raw sends any value'),
    ('steps:\n  - finish: []\n', '2:13', 'the step has nothing to finish', 'at least one id'),
    ('steps:\n  - abort: []\n', '2:12', 'the step has nothing to abort', 'at least one id'),
    ('engines:\n  - {engine: [], rules: []}\nsteps:\n  - fence: true\n', '2:14', 'the list names no engine', 'a rank, or all'),
    ('engines:\n  - {engine: [0, 0]}\nsteps:\n  - fence: true\n', '2:14', 'a rank stands twice in the list', ''),
    ('engines:\n  - rules: [{on: add, do: []}]\nsteps:\n  - fence: true\n', '2:27', 'the rule does nothing', 'drop: true to ignore the message'),
    ('steps:\n  - expect: {server_info: {data_paralel_size: 2}}\n', '2:28', "the frontend's sizes have no 'data_paralel_size'", "did you mean 'data_parallel_size'?"),
    ('topology: {coordinator: external, transport: bootstrapped}\nsteps:\n  - coordinator: {publish: [[[a]], 1, true]}\n', '3:29', 'a list of 1 is no counts of a publish', 'null, or a list of lists of numbers, one for each engine; publish_raw for anything else'),
    ('steps:\n  - expect: {connect: faild}\n', '2:23', 'invalid value of steps[0].expect.connect', "did you mean 'failed'?"),
    ('steps:\n  - wait: {event: log, where: {pattern: nosuchpattern}}\n', '2:41', "field 'pattern' of event 'log' is never text 'nosuchpattern'", 'one of auto-abort, auto-abort-failed, auto-abort-skipped, cancelled-utility-failed, client-closed, client-closing, coordinator-failed, coordinator-mode, coordinator-scaled, coordinator-subscribed, coordinator-unexpected, dispatcher-failed, drain-deadline, engine-dead, engines-connected, external-failed, external-first-request, external-update, finished-ids, grpc-not-serving, grpc-ready, grpc-starting, hello, http-ready and 25 more'),
    ('steps:\n  - wait: {event: notice, where: {notice: wave-complete}}\n', '2:43', "field 'notice' of event 'notice' is never text 'wave-complete'", "did you mean 'complete'?"),
    ('steps:\n  - wait: {event: call-ended, where: {outcome: finshed}}\n', '2:48', "field 'outcome' of event 'call-ended' is never text 'finshed'", "did you mean 'finished'?"),
    ('steps:\n  - call: {id: chat}\n  - engine: {engine: 0, do: {output: {request: chta, tokens: [1]}}}\n', '3:48', "no call step has the id 'chta'", "did you mean 'chat'?"),
    ('engines:\n  - rules: [{on: add, request: chta, do: {drop: true}}]\nsteps:\n  - call: {id: chat}\n', '2:32', "no call step has the id 'chta'", "did you mean 'chat'?"),
    ('steps:\n  - http: {id: m, path: /x, repeat: 3}\n', '2:37', 'there is no text to repeat', ''),
    ('steps:\n  - http: {id: m, path: /x, text: abcdefghij, repeat: 50000000}\n', '2:55', 'the text has 500000000 bytes in all', 'at most 268435456'),
    ('steps:\n  - http: {id: m, path: /x, headers: {Transfer-Encoding: gzip}, body: 1}\n', '2:39', "transfer encoding 'gzip' cannot be sent", 'chunked'),
    ('steps:\n  - utility: {id: u, method: is_sleeping}\n  - expect: {op: u, text: a}\n', '3:27', "'text' is nothing that a utility step shows", 'one of error, message, outcome, value'),
    ("steps:\n  - expect: {metrics: {'nonsense': 0}}\n", '2:24', "no release has a metric 'nonsense'", 'a sample of a family in docs/metrics.md'),
    ('steps:\n  - http: {id: m, path: /x}\n  - expect: {op: m, message: a}\n', '3:30', "'message' is nothing that a http step shows", 'one of body, body_text, error, outcome, status'),
    ("engines:\n  - {engine: 0, join: {ready_raw: '80', ready: {a: 1}}}\nsteps:\n  - fence: true\n", '2:48', "'ready_raw' and 'ready' exclude each other", ''),
    ('engines:\n  - rules: [{on: utility, do: {reply_with: {value: 1, failure: no}}}]\nsteps:\n  - fence: true\n', '2:64', "'value' and 'failure' exclude each other", ''),
    ("steps:\n  - http: {id: m, path: /x, headers: {Content-Length: '5'}}\n", '2:39', 'the header announces a body, and there is none', "key 'body' or 'text', or send: head"),
]
# fmt: on


@pytest.mark.parametrize(("text", "place", "title", "last"), CASES, ids=[c[2][:60] for c in CASES])
def test_wrong_file_gives_one_message_at_its_place(text, place, title, last):
    with pytest.raises(ScenarioFileError) as caught:
        parse(HEAD + text, Path("x.yaml"), name="x")
    (problem,) = caught.value.problems
    assert problem.place is not None
    found = f"{problem.place.line - HEAD_LINES}:{problem.place.column}"
    assert (found, problem.title, problem.help or problem.expected) == (place, title, last)


def test_validate_names_file_line_and_column_of_each_and_ends_with_2(tmp_path):
    for number, (text, _, _, _) in enumerate(CASES):
        (tmp_path / f"case-{number:03}.yaml").write_text(HEAD + text, encoding="utf-8")
    done = CliRunner().invoke(cli, ["validate", str(tmp_path), "--json", "-"])
    assert done.exit_code == ExitCode.USAGE
    report = json.loads(done.stdout)
    assert report["summary"]["invalid"] == len(CASES)
    for number, (_, place, title, _) in enumerate(CASES):
        line, _, column = place.partition(":")
        where = f"{tmp_path}/case-{number:03}.yaml:{int(line) + HEAD_LINES}:{column}"
        assert where in done.stderr.replace("\n", ""), title


@pytest.mark.parametrize("command", ["run", "matrix"])
def test_wrong_file_ends_a_run_before_anything_is_played(command, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(HEAD + "steps:\n  - grpc: {id: p, method: Control/IsPausd}\n", encoding="utf-8")
    words = [command, str(path), *(["--frontends", "0.33.0"] if command == "matrix" else [])]
    done = CliRunner().invoke(cli, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == ExitCode.USAGE
    assert "wrong.yaml:5:27" in done.output
    assert "did you mean 'Control/IsPaused'?" in done.output


def test_failure_of_an_own_scenario_is_shown_at_its_line_and_of_a_built_in_one_by_its_id(tmp_path):
    path = tmp_path / "own.yaml"
    text = "steps:\n  - call: {id: a}\n  - finish: a\n  - expect: {op: a, tokens: 7}\n"
    path.write_text(HEAD + text, encoding="utf-8")
    out = str(tmp_path / "out")
    done = CliRunner().invoke(cli, ["run", str(path), "--out", out])
    assert done.exit_code == ExitCode.VIOLATION
    assert f"{path}:7:5 (profile" in done.output.replace("\n", "")
    words = ["run", "waves/stale-first-request", "--mutant", "coordinator-rewinds", "--out", out]
    assert "--> waves/stale-first-request (profile" in CliRunner().invoke(cli, words).output


@pytest.mark.parametrize(
    "step",
    [
        # what is broken on purpose can be sent
        "{grpc: {id: a, method: Nobody/Nothing, wire: ''}}",
        "{grpc: {id: a, method: Control/Sleep, wire: ffff}}",
        "{grpc: {id: a, method: Control/Sleep, request: {mode: 77}}}",
        "{grpc: {id: a, method: Generate/Generate, metadata: {x-a: ' b'}}}",
        '{http: {id: a, path: /, behind: "GET x\\r\\n\\0: y"}}',
        "{http: {id: a, path: /, send: head, headers: {Content-Length: '5'}}}",
        "{http: {id: a, path: /, body: 1, headers: {Transfer-Encoding: chunked}}}",
        "{http: {id: a, path: /, headers: {X-A: é😀, x-a: ''}}}",
        "{http: {id: a, path: '*', verb: OPTIONS}}",
        "{call: {id: a, rank_text: ['a b', '']}}",
        "{call: {id: a, body: {prompt: [-1]}}}",
        "{utility: {id: u, method: nobodys, via: raw, args: [{}]}}",
        "{expect: {metrics: {'vllm:mooncake_store_operation_total{any=\"x\"}': 0}}}",
        "{expect: {exit_code: -9}}",
        "{engine: {engine: 0, do: {stats: {running: -1}}}}",
        "{engine: {engine: 0, do: {output: {request: nobody}}}}",
    ],
)
def test_odd_step_that_can_be_played_is_valid(step):
    parse(f"{HEAD}steps: [{step}]\n", Path("x.yaml"), name="x")


def test_a_rule_may_be_about_a_stranger_by_a_pattern_or_another_name():
    text = "engines: [{rules: [{on: add, request: NAME, do: {drop: true}}]}]\nsteps: [{call: {id: chat}}]\n"
    for name in ("chat", "'chta*'", "nobody"):
        parse(HEAD + text.replace("NAME", name), Path("x.yaml"), name="x")


@pytest.mark.parametrize("status", ["5" * 5_000, "²", "٤٠٠", "99", "600", "-1"])
def test_status_that_is_none_makes_no_name_of_an_error(status):
    text = f"steps:\n  - expect: {{healthy: false, health_error: HttpError{status}}}\n"
    with pytest.raises(ScenarioFileError) as caught:
        parse(HEAD + text, Path("x.yaml"), name="x")
    (problem,) = caught.value.problems
    assert problem.title.startswith("no error is called 'HttpError")


@pytest.mark.parametrize("text", ['title: "\\UFFFFFFFF"\n', "%YAML 1." + "1" * 5_000 + "\n---\n"])
def test_file_that_the_parser_fails_on_hides_no_other_file(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "b.yaml").write_text(HEAD + "steps:\n  - fence: true\n", encoding="utf-8")
    done = CliRunner().invoke(cli, ["validate", str(tmp_path), "--json", "-"])
    assert done.exit_code == ExitCode.USAGE, done.output
    assert json.loads(done.stdout)["summary"] == {"valid": 1, "invalid": 1, "exit": 2}
    commands = (
        "run",
        "migrate",
        "explain",
        ("baseline", "list"),
        *(
            (name, "--handshake", "127.0.0.1:1", "--engines", "1", "--behaviour")
            for name in ("engine", "record")
        ),
    )
    for command in commands:
        words = [command] if isinstance(command, str) else command
        done = CliRunner().invoke(cli, [*words, str(tmp_path / "a.yaml")])
        assert (done.exit_code, "a.yaml:1:" in done.output) == (ExitCode.USAGE, True), done.output
