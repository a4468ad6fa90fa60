#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of tenon-memviz in headless Chromium: it loads without errors, its numbers are the snapshot's, hovering shows
the block, a difference of two snapshots is right, and 10^5 events open in two seconds. Before that, tenon-memreplay on
the same snapshot.

  memviz_test.py --memviz PATH --memreplay PATH --program PATH [--screenshot FILE.png]

`program` is examples/memory_tools: given a path it saves a snapshot there. Exit status 77 when no browser is found
(CHROMIUM names one).
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")


class Browser:
    """Chromium spoken to over a pipe in its own protocol: JSON messages that end with a zero byte."""

    def __init__(self, path, profile):
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()

        def descriptors():  # Chromium reads 3 and writes 4
            os.dup2(to_read, 10), os.dup2(from_write, 11)
            os.dup2(10, 3), os.dup2(11, 4)
        self.log = open(os.path.join(profile, "log"), "wb")
        self.process = subprocess.Popen(
            [path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--window-size=1280,1000", "--hide-scrollbars", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=self.log, stderr=self.log)
        os.close(to_read), os.close(from_write)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank", width=1280, height=1000)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.source, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        self.events.clear()
        start = time.monotonic()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.receive())
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - start

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def move(self, x, y, kind="mouseMoved", **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def complaints(self):
        """Console errors, exceptions, and requests for anything but the page itself."""
        found = []
        for e in self.events:
            if e.get("method") == "Runtime.exceptionThrown":
                found.append(e["params"]["exceptionDetails"])
            elif e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning", "assert"):
                found.append(e["params"])
            elif e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error":
                found.append(e["params"]["entry"])
            elif e.get("method") == "Network.requestWillBeSent":
                url = e["params"]["request"]["url"]
                if not url.startswith(("file://", "data:")) or url.split("?")[0].endswith((".js", ".css")):
                    found.append("request of " + url)
        return found

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(str, what)))


def numbers(browser, name):
    return browser.evaluate(f"[...document.querySelectorAll('[data-stat=\"{name}\"]')].map(e => Number(e.dataset.bytes))")


def synthetic(events):
    """A snapshot with that many events: random sizes on two streams, 100 places."""
    rng = random.Random(3)
    rows, live, address, segment = [], {}, 1 << 32, 0
    kinds = ["alloc", "free_requested", "free_completed", "segment_alloc"]
    reserved = 0
    while len(rows) < events:
        if live and (len(live) > 400 or rng.random() < 0.48):
            key = rng.choice(list(live)) if len(live) < 50 else next(iter(live))
            size, requested, stream = live.pop(key)
            for kind in (1, 2):
                rows.append([len(rows), 0, kind, key, size, requested, stream, rng.randrange(100), -1])
        else:
            requested = int(2 ** rng.uniform(9, 24))
            size = (requested + 511) // 512 * 512
            if segment < size:
                segment = max(20 << 20, size)
                reserved += segment
                rows.append([len(rows), 0, 3, address, segment, 0, 0, -1, -1])
            live[address] = (size, requested, len(rows) % 2)
            rows.append([len(rows), 0, 0, address, size, requested, len(rows) % 2, rng.randrange(100), rng.randrange(3)])
            address += size
            segment -= size
    segments = [{"address": a, "size": s, "stream": st, "pool": "large", "blocks": [[0, s, r, "in use", 0, 0]]}
                for a, (s, r, st) in live.items()]
    allocated = sum(s for s, _, _ in live.values())
    pool = dict.fromkeys(("allocated", "reserved", "allocations", "frees", "segments"), 0)
    stats = dict.fromkeys(("peak_allocated", "peak_reserved", "peak_active", "requested", "peak_requested", "live_blocks",
                           "cached_blocks", "segments", "largest_free_block", "allocations", "frees",
                           "segments_allocated", "segments_released", "splits", "merges", "out_of_memory", "retries",
                           "total_allocated", "total_freed", "total_reserved", "total_released"), 0)
    stats.update(allocated=allocated, active=allocated, reserved=allocated, small=pool, large=pool)
    return {"format": "tenon-memory-snapshot", "version": 1, "tenon": "0", "dropped_events": 0, "event_kinds": kinds,
            "allocators": [{"name": "cuda:0", "source": "cudaMalloc", "settings": "backend:caching", "total": 80 << 30,
                            "stats": stats, "segments": segments}],
            "operators": ["add", "mul</script>", "matmul"], "frames": [[f"f{i}+0x1 (p+0x{i:x})", "/p", i, 0] for i in range(100)],
            "stacks": [[i, (i + 1) % 100] for i in range(100)], "events": rows}


def test_page(browser, memviz, folder, snapshot_path, screenshot):
    page = os.path.join(folder, "view.html")
    subprocess.run([memviz, snapshot_path, "-o", page], check=True)
    snapshot = json.load(open(snapshot_path))
    browser.open(page)
    check(not browser.complaints(), "the console says", browser.complaints())

    shown = browser.evaluate("memviz.state.allocator")
    allocator = snapshot["allocators"][shown]
    for name in ("allocated", "peak_allocated", "reserved", "peak_reserved", "requested", "total_allocated", "total_freed"):
        check(numbers(browser, name) == [allocator["stats"][name]], name, numbers(browser, name), allocator["stats"][name])
    check(sum(numbers(browser, "site")) == allocator["stats"]["allocated"], "the places add up to the live bytes")
    history = browser.evaluate("({end: memviz.state.history.allocatedAt[memviz.state.history.count], "
                               "reserved: memviz.state.history.reservedAt[memviz.state.history.count], "
                               "peak: memviz.state.history.peak, count: memviz.state.history.count})")
    check(history["end"] == allocator["stats"]["allocated"], "the timeline ends at", history, allocator["stats"]["allocated"])
    check(history["reserved"] == allocator["stats"]["reserved"], "reserved in the timeline", history)
    check(history["count"] == sum(e[1] == shown for e in snapshot["events"]), "events", history)
    check(history["peak"] == allocator["stats"]["peak_allocated"], "the timeline's peak", history, allocator["stats"])

    # Somewhere in the timeline there is a block; hovering tells its size and where it came from.
    spot = browser.evaluate("""(() => { const c = document.getElementById('timeline'), b = c.getBoundingClientRect(), o = memviz.state.owner;
      let best = [-1, 0];
      for (let i = 0, run = 0; i < o.length; ++i) { run = i && o[i] === o[i - 1] && o[i] >= 0 ? run + 1 : 0; if (run > best[1]) best = [i - (run >> 1), run]; }
      const s = devicePixelRatio, x = best[0] % c.width, y = Math.floor(best[0] / c.width);
      return {x: b.left + c.clientLeft + (x + 0.5) / s, y: b.top + c.clientTop + (y + 0.5) / s, life: memviz.state.history.lives[o[best[0]]]}; })()""")
    browser.move(spot["x"], spot["y"])
    text = browser.evaluate("document.getElementById('detail').hidden ? '' : document.getElementById('detail').textContent")
    life = spot["life"]
    check(f"({life['size']} bytes, asked for {life['requested']})" in text, "hover says", text, life)
    check(f"0x{life['address']:x}" in text and f"stream {life['stream']}" in text, "hover says", text)
    if life["stack"] >= 0:
        frames = [snapshot["frames"][f] for f in snapshot["stacks"][life["stack"]]]
        outer = next((f[0] for f in frames if not f[3]), frames[0][0])
        check(outer in text, "hover names the place", text, outer)
    if screenshot:
        import base64
        data = browser.call("Page.captureScreenshot", format="png")["data"]
        open(screenshot, "wb").write(base64.b64decode(data))
    browser.move(5, 5)

    # Zooming by the wheel narrows the range; the button restores it.
    browser.move(640, spot["y"], "mouseWheel", deltaX=0, deltaY=-200)
    browser.evaluate("new Promise(requestAnimationFrame)")
    narrow = browser.evaluate("memviz.state.to - memviz.state.from")
    check(narrow < history["count"], "zoom", narrow)
    browser.evaluate("document.getElementById('reset').click()")
    check(browser.evaluate("memviz.state.to - memviz.state.from") == history["count"], "reset")

    # Segments: the first block of the largest one.
    largest = max(allocator["segments"], key=lambda s: s["size"])
    browser.evaluate("document.getElementById('segments').scrollIntoView({block: 'center'})")
    box = browser.evaluate("(() => { const b = document.getElementById('segments').getBoundingClientRect(); return [b.left, b.top]; })()")
    browser.move(box[0] + 1, box[1] + 9)
    text = browser.evaluate("document.getElementById('detail').textContent")
    check(f"({largest['blocks'][0][1]} bytes" in text and "segment 0x" in text, "hover over a segment says", text)
    for change in ("axis", "colour"):  # every option draws
        for option in browser.evaluate(f"[...document.getElementById('{change}').options].map(o => o.value)"):
            browser.evaluate(f"(() => {{ const e = document.getElementById('{change}'); e.value = '{option}'; e.dispatchEvent(new Event('change')); }})()")
    check(not browser.complaints(), "the console says", browser.complaints())


def test_diff(browser, memviz, folder, snapshot_path):
    later = json.load(open(snapshot_path))
    shown = max(range(len(later["allocators"])), key=lambda i: sum(e[1] == i for e in later["events"]))
    stats = later["allocators"][shown]["stats"]
    block = next(b for s in later["allocators"][shown]["segments"] for b in s["blocks"] if b[3] == "in use")
    block[3] = "free"
    stats["allocated"] -= block[1]
    second = os.path.join(folder, "later.json")
    json.dump(later, open(second, "w"))
    page = os.path.join(folder, "diff.html")
    subprocess.run([memviz, snapshot_path, second, "-o", page], check=True)
    browser.open(page)
    check(numbers(browser, "diff_allocated") == [-block[1]], "difference", numbers(browser, "diff_allocated"), block)
    check(numbers(browser, "diff_site") == [-block[1]], "difference by place", numbers(browser, "diff_site"), block)
    check(not browser.complaints(), "the console says", browser.complaints())


def test_large(browser, memviz, folder):
    path, page = os.path.join(folder, "large.json"), os.path.join(folder, "large.html")
    json.dump(synthetic(100_000), open(path, "w"))
    subprocess.run([memviz, path, "-o", page], check=True)
    seconds = min(browser.open(page) for _ in range(3))
    check(not browser.complaints(), "the console says", browser.complaints())
    own = browser.evaluate("memviz.loadMilliseconds")
    print(f"10^5 events: open and drawn in {seconds:.2f} s, of which {own / 1000:.2f} s in the page's script")
    check(seconds < 2.0 or os.environ.get("TENON_SLOW_MACHINE"), "10^5 events took", seconds, "s")


def test_errors(memviz, folder):
    bad = os.path.join(folder, "bad.json")
    for text, word in (("{", "not JSON"), ("{}", "not a memory snapshot"),
                       ('{"format":"tenon-memory-snapshot","version":2}', "version 2"),
                       ('{"format":"tenon-memory-snapshot","version":1}', "damaged")):
        open(bad, "w").write(text)
        run = subprocess.run([memviz, bad, "-o", os.path.join(folder, "x.html")], capture_output=True, text=True)
        check(run.returncode == 1 and word in run.stderr and bad in run.stderr, text, run)
    check(subprocess.run([memviz], capture_output=True).returncode == 2, "usage")


def test_files(memviz, folder, snapshot_path):
    """Numbers of stacks that do not exist are told, not drawn; a file may have the name of a mark in the page."""
    for damage, word in ((lambda s: s["events"][0].__setitem__(7, len(s["stacks"])), "stack"),
                         (lambda s: s["events"][0].__setitem__(8, -2), "operator"),
                         (lambda s: s["stacks"][0].__setitem__(0, len(s["frames"])), "frame")):
        snapshot = json.load(open(snapshot_path))
        damage(snapshot)
        bad = os.path.join(folder, "bad.json")
        json.dump(snapshot, open(bad, "w"))
        run = subprocess.run([memviz, bad, "-o", os.path.join(folder, "x.html")], capture_output=True, text=True)
        check(run.returncode == 1 and "there is no " + word in run.stderr, word, run)
    odd, page = os.path.join(folder, "@DATA@@SCRIPT@.json"), os.path.join(folder, "odd.html")
    shutil.copy(snapshot_path, odd)
    subprocess.run([memviz, odd, "-o", page], check=True)
    text = open(page).read()
    check(text.count("@DATA@@SCRIPT@.json") == 2 and text.count('<script type="application/json">') == 1, "marks")


def test_replay(memreplay, folder, snapshot_path):
    """With the recorded settings the replay reserves what was measured; a smaller device fails; bad input says so."""
    def run(*arguments):
        return subprocess.run([memreplay, *arguments], capture_output=True, text=True)
    rows = json.loads(run(snapshot_path, "--json", "--conf", "roundup_power2_divisions:4").stdout)
    check([r["role"] for r in rows] == ["recorded", "replayed", "conf"], rows)
    recorded, replayed, conf = rows
    for name in ("peak_reserved", "peak_allocated", "reserved"):
        check(abs(replayed[name] - recorded[name]) <= 0.02 * recorded[name], name, recorded, replayed)
    check(replayed["allocations"] >= recorded["allocations"] > 100, recorded, replayed)  # and what was there before
    check(replayed["failed"] == 0 and "divisions:4" in conf["settings"], rows)
    tight = json.loads(run(snapshot_path, "--json", "--capacity", "4").stdout)[1]
    check(tight["failed"] > 0 and tight["peak_reserved"] <= 4 << 20, tight)
    tuned = run(snapshot_path, "--tune").stdout
    check("best: TENON_ALLOC_CONF=" in tuned or "nothing helps: the recorded settings are as good" in tuned, tuned)
    on_host = next(a for a in json.load(open(snapshot_path))["allocators"] if a["name"] == "cpu")
    check(on_host["virtual_memory"] == 0, "the host cannot expand segments")
    check("expandable" not in run(snapshot_path, "--device", "cpu", "--tune").stdout, "offered for the host")
    # Nothing allocated, nothing to gain.
    idle = json.load(open(snapshot_path))
    idle["events"] = []
    idle["allocators"] = [dict(on_host, segments=[])]
    path = os.path.join(folder, "idle.json")
    json.dump(idle, open(path, "w"))
    check("nothing helps: the recorded settings are as good" in run(path, "--tune").stdout, run(path, "--tune"))
    for arguments, word in (((snapshot_path, "--conf", "no_such:1"), "no_such"), ((snapshot_path, "--device", "cuda:9"), "cpu"),
                            ((os.path.join(folder, "none.json"),), "none.json")):
        failed = run(*arguments)
        check(failed.returncode == 1 and word in failed.stderr, arguments, failed)
    check(run().returncode == 2, "usage")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--memviz", required=True)
    options.add_argument("--memreplay", required=True)
    options.add_argument("--program", required=True)
    options.add_argument("--screenshot")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        test_errors(options.memviz, folder)
        snapshot = os.path.join(folder, "snapshot.json")
        subprocess.run([options.program, snapshot], check=True, stdout=subprocess.DEVNULL)
        test_replay(options.memreplay, folder, snapshot)
        test_files(options.memviz, folder, snapshot)
        path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
        if not path:
            print("skipped: no Chromium found (tried " + ", ".join(BROWSERS) + "; set CHROMIUM)")
            return 77
        profile = os.path.join(folder, "profile")
        os.mkdir(profile)
        browser = Browser(path, profile)
        try:
            test_page(browser, options.memviz, folder, snapshot, options.screenshot)
            test_diff(browser, options.memviz, folder, snapshot)
            test_large(browser, options.memviz, folder)
        finally:
            browser.close()
    print("memviz: the page is right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
