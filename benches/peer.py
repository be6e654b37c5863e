#!/usr/bin/env python3
"""Race the CPU finder against the peer library aare on the same frames, in one run, in turns.

    python3 -m venv new && new/bin/pip install numpy aare==2026.9.30      # frozen, noise = fixed
    python3 -m venv old && old/bin/pip install numpy aare==2026.7.2       # serial
    new/bin/python benches/peer.py --new new/bin/python --old old/bin/python --scheidegg target/release/scheidegg \
        --folder /tmp/frames --log benches/runs

Frames come from `scheidegg simulate --faultless` (made in --folder when they are not there). In every round each contender
goes once through all frames, so that whatever else the machine does hits all alike; the table gives the median and
the spread (first to third quartile) over rounds, and ratios of medians.
"""
import argparse
import datetime
import json
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time


def worker(a):
    """Inside a peer's interpreter: microseconds a frame, once through the frames."""
    import numpy as np
    import aare
    from importlib.metadata import version
    dark, data = (np.ascontiguousarray(np.load(f), dtype=np.uint16) for f in (a.dark, a.data))
    data = data[: a.frames]
    kw = dict(cluster_size=(a.size, a.size), n_sigma=5.0, capacity=4096)
    if version("aare") >= "2026.9":
        kw["min_pedestal_samples"] = len(dark)
    finder = aare.ClusterFinder(data.shape[1:], **kw)
    for f in dark:
        finder.push_pedestal_frame(f)
    found = 0
    clock = time.process_time if a.cpu_time else time.perf_counter
    start = clock()
    for k, f in enumerate(data):
        finder.find_clusters(f, k)
        found += np.asarray(finder.steal_clusters()).size
    us = (clock() - start) / len(data) * 1e6
    print(json.dumps({"us": us, "clusters": int(found), "version": version("aare")}))


def last_json(command):
    out = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{out.stderr}")
    return json.loads(out.stdout.strip().splitlines()[-1])


def processor_seconds(command):
    """What a program takes of the processor, and the last line that it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = last_json(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--new", help="python with aare 2026.9.30")
    p.add_argument("--old", help="python with aare 2026.7.2")
    p.add_argument("--scheidegg", default="target/release/scheidegg")
    p.add_argument("--folder", default="bench-frames")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--frames", type=int, default=400, help="frames for scheidegg")
    p.add_argument("--peer-frames", type=int, default=40)
    p.add_argument("--sizes", default="3,5,7,9")
    p.add_argument("--threads", type=int, default=2, help="also on this many threads")
    p.add_argument("--log", help="folder for a dated log")
    p.add_argument("--cpu-time", action="store_true",
                   help="processor time instead of wall time, for a machine that does other work (one thread only)")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--dark", help=argparse.SUPPRESS)
    p.add_argument("--data", help=argparse.SUPPRESS)
    p.add_argument("--size", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        return worker(a)

    folder = pathlib.Path(a.folder)
    dark, data = folder / "dark.npy", folder / "data.npy"
    if not dark.exists():
        subprocess.run([a.scheidegg, "simulate", "--out", folder, "--darks", "1000", "--frames", str(a.frames), "--faultless"],
                       check=True)

    def peer(python, size):
        return lambda: last_json([python, __file__, "--worker", "--dark", dark, "--data", data, "--size", size,
                                  "--frames", a.peer_frames] + ["--cpu-time"] * a.cpu_time)

    def ours(size, precision, mode, threads=1):
        def bench(reps):
            return [a.scheidegg, "bench", "--backend", "cpu", "--threads", threads, "--size", size, "--dark", dark,
                    "--data", data, "--frames", a.frames, "--precision", precision, "--reps", reps, "--json", *mode]

        def run():
            if a.cpu_time and threads == 1:
                # The difference of two runs leaves out reading and training.
                (few, _), (many, r) = processor_seconds(bench(1)), processor_seconds(bench(11))
                us = (many - few) / 10 / a.frames * 1e6
                return {"us": us, "clusters": r["clusters"], "device": r["device"]}
            r = last_json(bench(5))
            return {"us": r["median_us"], "min": r["min_us"], "clusters": r["clusters"], "device": r["device"]}
        return run

    fixed, serial = ["--noise", "fixed"], ["--update", "serial"]
    rows = []
    for s in map(int, a.sizes.split(",")):
        if a.new:
            rows.append((f"{s}x{s} aare 2026.9.30", None, peer(a.new, s)))
        base = f"{s}x{s} aare 2026.9.30" if a.new else None
        rows.append((f"{s}x{s} frozen f32", base, ours(s, "f32", [])))
        rows.append((f"{s}x{s} frozen f64f32", base, ours(s, "f64f32", [])))
        rows.append((f"{s}x{s} frozen fixed f64", base, ours(s, "f64", fixed)))
        if not a.cpu_time:
            rows.append((f"{s}x{s} frozen f32, {a.threads} threads", f"{s}x{s} frozen f32", ours(s, "f32", [], a.threads)))
        if a.old:
            rows.append((f"{s}x{s} aare 2026.7.2", None, peer(a.old, s)))
        base = f"{s}x{s} aare 2026.7.2" if a.old else None
        rows.append((f"{s}x{s} serial f32", base, ours(s, "f32", serial)))
        rows.append((f"{s}x{s} serial f64f32", base, ours(s, "f64f32", serial)))
        rows.append((f"{s}x{s} serial f64", base, ours(s, "f64", serial)))

    got = {name: [] for name, _, _ in rows}
    least, device = {}, ""
    for r in range(a.rounds):
        for name, _, run in rows:
            v = run()
            got[name].append(v["us"])
            least[name] = min(least.get(name, 1e99), v.get("min", v["us"]))
            device = v.get("device", device)
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
    lscpu = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    keep = ("Model name", "CPU family", "Model:", "CPU(s):", "Thread(s) per core", "L1d", "L2", "L3", "Hypervisor")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    now = datetime.datetime.now(datetime.timezone.utc)
    lines = [f"# CPU finder and aare in one run, {now:%Y-%m-%d %H:%M} UTC, commit {commit}",
             f"# {cpu}, {device}; load average {open('/proc/loadavg').read().split()[0]} at the end",
             *("# " + l for l in lscpu.splitlines() if l.startswith(keep)),
             f"# {'processor' if a.cpu_time else 'wall'} time",
             f"# benches/peer.py{' --cpu-time' * a.cpu_time} --rounds {a.rounds} --frames {a.frames} --peer-frames {a.peer_frames}; "
             "frames: scheidegg simulate --faultless (400x400, 2300 photons)",
             f"{'':32} {'median us':>10} {'spread':>8} {'least':>8} {'times faster':>13} {'by least':>9}"]
    for name, base, _ in rows:
        v = sorted(got[name])
        q = statistics.quantiles(v, n=4) if len(v) > 1 else [v[0]] * 3
        m = statistics.median(v)
        ratio = f"{statistics.median(got[base]) / m:13.1f} {least[base] / least[name]:9.1f}" if base else ""
        lines.append(f"{name:32} {m:10.1f} {q[2] - q[0]:8.1f} {least[name]:8.1f} {ratio}")
    print("\n".join(lines))
    if a.log:
        path = pathlib.Path(a.log) / f"{now:%Y-%m-%d}-cpu-peer.txt"
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
