"""One peer on workload W, in a process and an environment of its own: ``peer.py NAME RUNS [frozen]``.

Knows nothing of ours. Says ``ready``, then plays RUNS schedules for each line on its input and
answers with the CPU seconds that they took. ``frozen``: what exists before the first run is left out
of garbage collections, which some peers do after each run; nobody does that by default.
"""

import gc
import sys
import time

import workload


def detangle(first, runs):
    import detangle

    for seed in range(first, first + runs):
        detangle.run(workload.main, seed=seed)


def simloop(first, runs):
    import simloop

    if simloop.explore(workload.main, range(first, first + runs)) is not None:
        msg = "a schedule failed"
        raise RuntimeError(msg)


def simloom(first, runs):
    import simloom

    for seed in range(first, first + runs):
        simloom.run(workload.main, seed=seed)


def main():
    play = {"detangle": detangle, "simloop": simloop, "simloom": simloom}[sys.argv[1]]
    runs = int(sys.argv[2])
    play(0, runs)
    if "frozen" in sys.argv[3:]:
        gc.collect()
        gc.freeze()
    print("ready", flush=True)
    for number, _ in enumerate(sys.stdin, start=1):
        begin = time.process_time()
        play(number * runs, runs)
        print(time.process_time() - begin, flush=True)


if __name__ == "__main__":
    main()
