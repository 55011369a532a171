#!/usr/bin/env python3
"""What does a person see? `screen.py [--watch TEXT FILE] COMMAND...` runs a command in a terminal of its own, 80 columns by 24 rows, and
prints what stands on it in the end: first the lines that have scrolled out at the top, then the screen, without blanks at the ends of
lines and without empty lines at the end.

--watch: makes FILE once TEXT stands in the last row, so that the command can wait for it; when the command has ended without, the exit
code is 3. Otherwise it is the command's. Knows those sequences of a VT100 that the tests send, and ends with 4 at any other, and if a row
that was taken out of the region that scrolls is given back with text.
"""
import fcntl, os, pty, re, signal, struct, sys, termios

ROWS, COLUMNS, LIMIT_S = 24, 80, 600
cells = [" " * COLUMNS for _ in range(ROWS)]
row = column = 0
saved = (0, 0)
top, bottom = 0, ROWS - 1  # of the region that scrolls, both inside
full = False  # the last column was written: the next character goes to the next line


def refuse(what):
    print(f"screen: {what}", file=sys.stderr)
    sys.exit(4)


def move_to(to_row, to_column):
    global row, column, full
    row, column, full = max(0, min(to_row, ROWS - 1)), max(0, min(to_column, COLUMNS - 1)), False


def down():
    global row, full
    if row == bottom:
        if top == 0:  # terminals keep what leaves at the very top
            print(cells[0].rstrip())
        del cells[top]
        cells.insert(bottom, " " * COLUMNS)
    elif row < ROWS - 1:
        row += 1
    full = False


def put(character):
    global column, full
    if full:
        column = 0
        down()
    cells[row] = cells[row][:column] + character + cells[row][column + 1:]
    full = column == COLUMNS - 1
    column += not full


def take(part):
    """A character, or a whole sequence."""
    global top, bottom, saved
    if len(part) == 1 and part >= " ":
        put(part)
    elif part in ("\n", "\033D"):
        down()
    elif part == "\r":
        move_to(row, 0)
    elif part == "\0337":
        saved = (row, column)
    elif part == "\0338":
        move_to(*saved)
    elif part == "\033[2K":
        cells[row] = " " * COLUMNS
    elif re.fullmatch(r"\033\[[0-9;]*[mAHr]", part):
        first, second = ([int(word or 0) for word in part[2:-1].split(";")] + [0])[:2]
        if part[-1] == "A":
            move_to(max(top, row - max(first, 1)), column)
        elif part[-1] == "H":
            move_to(max(first, 1) - 1, max(second, 1) - 1)
        elif part[-1] == "r":
            if not second and "".join(cells[bottom + 1:]).strip():
                refuse(f"given back with text: {cells[bottom + 1:]}")
            top, bottom = max(first, 1) - 1, (second or ROWS) - 1
            move_to(0, 0)
    else:
        refuse(f"unknown {part!r}")


watched, file = (sys.argv[2:4] if sys.argv[1] == "--watch" else (None, None))
command = sys.argv[4 if watched else 1:]
process, terminal = pty.fork()
if process == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.environ["TERM"] = "xterm"
    signal.alarm(LIMIT_S)
    os.execvp(command[0], command)
rest = ""
while True:
    try:
        got = os.read(terminal, 4096).decode("latin-1")
    except OSError:  # the command has ended
        break
    parts = re.findall(r"\033\[[0-9;]*[^0-9;]|\033[^\[]|[^\033]|\033.*$", rest + got, re.DOTALL)
    rest = parts.pop() if parts and re.fullmatch(r"\033(\[[0-9;]*)?", parts[-1]) else ""
    for part in parts:
        take(part)
        if file and watched in cells[ROWS - 1]:
            open(file, "w").close()
            file = None
_, status = os.waitpid(process, 0)
while cells and not cells[-1].strip():
    cells.pop()
print("".join(line.rstrip() + "\n" for line in cells), end="")
code = os.waitstatus_to_exitcode(status)
sys.exit(3 if file else code if code >= 0 else 128 - code)
