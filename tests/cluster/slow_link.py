"""slow_link.py PID1 NAME1 MS1 PID2 NAME2 MS2 [LOST [FILE]] - carries Ethernet frames between two TAP devices in the network namespaces of
two processes, each frame MS milliseconds late: MS1 is of what the first device sends. LOST: of 100 frames so many, by chance, are not
carried. FILE may say at any time: 12=N, 21=N of 100 frames of that direction are lost, ms=N more, late=N of 100 come 20 ms later.
Prints "ready", and runs until it is ended."""
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import sys
import time

CLONE_NEWNET, TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x40000000, 0x400454CA, 0x0002, 0x1000
FRAME_BYTES = 65536
number = itertools.count()


def attach(process, name):
    with open("/proc/%s/ns/net" % process) as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
            sys.exit("cannot enter the network of process %s: %s" % (process, os.strerror(ctypes.get_errno())))
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def told(path):
    try:
        with open(path) as file:
            return {word.split("=")[0]: float(word.split("=")[1]) for word in file.read().split()}
    except OSError:
        return {}


def carry(ends, lost, path):
    """`ends`: (from, to, seconds, name) of each direction."""
    queues = {end[0]: [] for end in ends}
    while True:
        now = time.monotonic()
        wakes = [queue[0][0] - now for queue in queues.values() if queue] + ([0.05] if path else [])
        readable, _, _ = select.select(list(queues), [], [], max(0, min(wakes)) if wakes else None)
        says = told(path) if path else {}
        for source, target, seconds, name in ends:
            if source in readable:
                frame = os.read(source, FRAME_BYTES)
                if random.random() * 100 >= says.get(name, lost):
                    late = 0.02 if random.random() * 100 < says.get("late", 0) else 0
                    heapq.heappush(queues[source], (time.monotonic() + seconds + says.get("ms", 0) / 1e3 + late, next(number), frame))
            while queues[source] and queues[source][0][0] <= time.monotonic():
                os.write(target, heapq.heappop(queues[source])[2])


def main():
    one, other = attach(*sys.argv[1:3]), attach(*sys.argv[4:6])
    print("ready", flush=True)
    ends = [(one, other, float(sys.argv[3]) / 1e3, "12"), (other, one, float(sys.argv[6]) / 1e3, "21")]
    carry(ends, float((sys.argv + ["0"])[7]), (sys.argv + [None] * 2)[8])


main()
