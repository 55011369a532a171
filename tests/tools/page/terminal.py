"""terminal.py FOLDER RANKS COMMAND... - runs a job whose stderr is a wide terminal. Once each rank's program has ended, and has made the
file FOLDER/ended.RANK, the progress line that is drawn next goes to FOLDER/status, and FOLDER/seen lets the ranks' shells end. All else
goes to stderr without the terminal's sequences. The exit code is the job's.
"""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

folder, ranks, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 400, 0, 0))
job = subprocess.Popen(command, stderr=slave, env={**os.environ, "TERM": "xterm"}, start_new_session=True)
os.close(slave)
whole, begin = "", None
while True:
    try:
        whole += os.read(master, 65536).decode("utf-8", "replace")
    except OSError:  # the job has ended
        break
    if begin is None and all(os.path.exists("%s/ended.%d" % (folder, rank)) for rank in range(ranks)):
        begin = len(whole)
    drawn = re.search(r"\033\[2K(ddprun: [^\033]*)\0338", whole[begin:]) if begin else None
    if drawn and not os.path.exists(folder + "/seen"):
        with open(folder + "/status", "w", encoding="utf-8") as file:
            file.write(drawn[1] + "\n")
        open(folder + "/seen", "w", encoding="utf-8").close()
sys.stderr.write(re.sub(r"\0337.*?\0338|\033D|\033\[A|\r", "", whole, flags=re.S))
code = job.wait()
sys.exit(code if code >= 0 else 128 - code)
