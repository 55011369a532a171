"""slow_link.py PID1 NAME1 MS1 PID2 NAME2 MS2 [LOST] - carries Ethernet frames between two TAP devices in the network namespaces of
two processes, each frame MS milliseconds late: MS1 is of what the first device sends. LOST: of 100 frames so many, by chance, are not
carried. Prints "ready", and runs until it is ended."""
import collections
import ctypes
import fcntl
import os
import random
import select
import struct
import sys
import time

CLONE_NEWNET, TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x40000000, 0x400454CA, 0x0002, 0x1000
FRAME_BYTES = 65536


def attach(process, name):
    with open("/proc/%s/ns/net" % process) as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
            sys.exit("cannot enter the network of process %s: %s" % (process, os.strerror(ctypes.get_errno())))
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def carry(ends, lost):
    """`ends`: (from, to, seconds) of each direction."""
    queues = {source: collections.deque() for source, _, _ in ends}
    while True:
        now = time.monotonic()
        wakes = [queue[0][0] - now for queue in queues.values() if queue]
        readable, _, _ = select.select(list(queues), [], [], max(0, min(wakes)) if wakes else None)
        for source, target, seconds in ends:
            if source in readable:
                frame = os.read(source, FRAME_BYTES)
                if random.random() * 100 >= lost:
                    queues[source].append((time.monotonic() + seconds, frame))
            while queues[source] and queues[source][0][0] <= time.monotonic():
                os.write(target, queues[source].popleft()[1])


def main():
    one, other = attach(*sys.argv[1:3]), attach(*sys.argv[4:6])
    print("ready", flush=True)
    carry([(one, other, float(sys.argv[3]) / 1e3), (other, one, float(sys.argv[6]) / 1e3)], float((sys.argv + ["0"])[7]))


main()
