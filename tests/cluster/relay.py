#!/usr/bin/env python3
"""relay.py HOST PORT TO WHICH DEED - a process that does not know the secret, between those of a job.

Listens at PORT, and passes each connection on to port TO of HOST, an address of this host, or to the first of the 14 after it that
answers, or to the port that the file TO names: challenge, answer and welcome as they are, so that both ends are proven to each other. Then, on the first
connection that is WHICH (meeting, supervisor, engine), DEED happens to the frames that the one who connected sends, the second of
them at first: pass, alter (one bit), repeat, drop; or add: a frame is put in that orders the end of the job with exit code 0. Says
"ready", and "done DEED" once it has.
"""
import os
import socket
import struct
import sys
import threading

host, port, to, which, deed = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
CHALLENGE, ANSWER, WELCOME, PURPOSE_ENGINE, FRAME_END = 40, 80, 32, 2, 5
HEADER = 24  # base/peer_link.h; it begins with the number of bytes behind it
lock, chosen = threading.Lock(), []


def read(source, count):
    data = b""
    while len(data) < count:
        got = source.recv(count - len(data))
        if not got:
            raise OSError("closed")
        data += got
    return data


def done():
    print("done", deed, flush=True)


def pump(source, target, is_hit):
    number = 0
    try:
        while True:
            if not is_hit:
                got = source.recv(65536)
                if not got:
                    break
                target.sendall(got)
                continue
            header = read(source, HEADER)
            frame = header + read(source, struct.unpack_from("<I", header)[0])
            number += 1
            if number == 2 and deed in ("alter", "repeat", "drop"):
                if deed == "alter":
                    frame = frame[:-1] + bytes([frame[-1] ^ 1])
                if deed != "drop":
                    target.sendall(frame)
                done()
                if deed != "repeat":
                    continue
            target.sendall(frame)
    except OSError:
        pass
    for end in source, target:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def reach():
    while True:
        ports = range(int(to), int(to) + 15) if to.isdigit() else [int(open(to).read())] if os.path.exists(to) else []
        for one in ports:
            try:
                return socket.create_connection((host, one), 5)
            except OSError:
                pass
        threading.Event().wait(0.05)


def serve(near):
    far = reach()
    far.settimeout(None)
    try:
        near.sendall(read(far, CHALLENGE))
        answer = read(near, ANSWER)
        far.sendall(answer)
        near.sendall(read(far, WELCOME))
    except OSError:
        near.close()
        far.close()
        return
    is_engine = struct.unpack_from("<I", answer, 8)[0] == PURPOSE_ENGINE
    with lock:
        is_hit = is_engine == (which == "engine") and not chosen
        if is_hit:
            chosen.append(near)
    if is_hit and deed == "pass":
        done()
    if is_hit and deed == "add":
        order = struct.pack("<IIII", 0, 15, 2000, 0)
        near.sendall(struct.pack("<II", len(order), FRAME_END) + bytes(HEADER - 8) + order)
        done()
    threading.Thread(target=pump, args=(near, far, is_hit), daemon=True).start()
    threading.Thread(target=pump, args=(far, near, False), daemon=True).start()


server = socket.create_server(("", port), backlog=64)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
