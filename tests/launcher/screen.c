/*
 * screen.c - what does a person see? `screen [--watch TEXT FILE] COMMAND...` runs a command in a terminal of its own,
 * 80 columns by 24 rows, and prints what stands on it in the end: first the lines that have scrolled out at the top,
 * then the screen, without blanks at the ends of lines and without empty lines at the end.
 *
 * --watch: makes FILE once TEXT stands in the last row, so that the command can wait for it; when the command has ended
 * without, the exit code is 3. Otherwise it is the command's. Knows those sequences of a VT100 that the tests send, and
 * ends with 4 at any other.
 */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { ROWS = 24, COLUMNS = 80, LIMIT_S = 600, NUMBERS = 4 };

static struct {
    char cells[ROWS][COLUMNS + 1];
    int row, column, saved_row, saved_column;
    int top, bottom; /* of the region that scrolls, both inside */
    bool full;       /* the last column was written: the next character goes to the next line */
} screen;

static void
print_row(const char *cells)
{
    int length = COLUMNS;
    while (length > 0 && cells[length - 1] == ' ')
        --length;
    printf("%.*s\n", length, cells);
}

static void
scroll_up(void)
{
    if (screen.top == 0) /* terminals keep what leaves at the very top */
        print_row(screen.cells[0]);
    memmove(screen.cells[screen.top], screen.cells[screen.top + 1],
            (size_t)(screen.bottom - screen.top) * sizeof(screen.cells[0]));
    memset(screen.cells[screen.bottom], ' ', COLUMNS);
}

static void
down(void)
{
    if (screen.row == screen.bottom)
        scroll_up();
    else if (screen.row < ROWS - 1)
        ++screen.row;
    screen.full = false;
}

static void
put_character(char c)
{
    if (screen.full) {
        screen.column = 0;
        down();
    }
    screen.cells[screen.row][screen.column] = c;
    screen.full = screen.column == COLUMNS - 1;
    screen.column += !screen.full;
}

static void
unknown(const char *what, int c)
{
    fprintf(stderr, "screen: unknown %s %d\n", what, c);
    exit(4);
}

static void
move_to(int row, int column)
{
    screen.row = row < 0 ? 0 : row >= ROWS ? ROWS - 1 : row;
    screen.column = column < 0 ? 0 : column >= COLUMNS ? COLUMNS - 1 : column;
    screen.full = false;
}

/* A control sequence: its numbers (0: not given) and its last character. */
static void
control(const int *numbers, char last)
{
    int one = numbers[0] > 0 ? numbers[0] : 1;
    switch (last) {
    case 'm':
        break;
    case 'A':
        move_to(screen.row - one < screen.top ? screen.top : screen.row - one, screen.column);
        break;
    case 'H':
        move_to(one - 1, numbers[1] > 0 ? numbers[1] - 1 : 0);
        break;
    case 'K':
        if (numbers[0] != 2)
            unknown("erasure", numbers[0]);
        memset(screen.cells[screen.row], ' ', COLUMNS);
        break;
    case 'r':
        screen.top = one - 1;
        screen.bottom = numbers[1] > 0 ? numbers[1] - 1 : ROWS - 1;
        move_to(0, 0);
        break;
    default:
        unknown("control sequence", last);
    }
}

static void
escape(char c)
{
    switch (c) {
    case '7':
        screen.saved_row = screen.row;
        screen.saved_column = screen.column;
        break;
    case '8':
        move_to(screen.saved_row, screen.saved_column);
        break;
    case 'D':
        down();
        break;
    default:
        unknown("escape", c);
    }
}

static void
take(char c)
{
    static enum { TEXT, ESCAPE, CONTROL } state;
    static int numbers[NUMBERS], count;
    if (state == ESCAPE && c == '[') {
        state = CONTROL;
        memset(numbers, 0, sizeof(numbers));
        count = 0;
    } else if (state == ESCAPE) {
        state = TEXT;
        escape(c);
    } else if (state == CONTROL && c >= '0' && c <= '9') {
        numbers[count] = 10 * numbers[count] + (c - '0');
    } else if (state == CONTROL && c == ';' && count + 1 < NUMBERS) {
        ++count;
    } else if (state == CONTROL) {
        state = TEXT;
        control(numbers, c);
    } else if (c == '\033') {
        state = ESCAPE;
    } else if (c == '\n') {
        down();
    } else if (c == '\r') {
        move_to(screen.row, 0);
    } else if (c >= ' ') {
        put_character(c);
    } else {
        unknown("character", c);
    }
}

static bool
run(int terminal, const char *watched, const char *file)
{
    char bytes[4096];
    bool seen = watched == NULL;
    ssize_t got;
    while ((got = read(terminal, bytes, sizeof(bytes))) > 0 || (got < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < got; ++i) {
            take(bytes[i]);
            if (seen || strstr(screen.cells[ROWS - 1], watched) == NULL)
                continue;
            seen = true;
            int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            if (fd >= 0)
                close(fd);
        }
    }
    return seen;
}

int
main(int argc, char **argv)
{
    bool watches = argc > 3 && strcmp(argv[1], "--watch") == 0;
    char **command = argv + (watches ? 4 : 1);
    struct winsize size = {.ws_row = ROWS, .ws_col = COLUMNS};
    int terminal, status;
    if (command[0] == NULL)
        return 2;
    memset(screen.cells, ' ', sizeof(screen.cells));
    for (int i = 0; i < ROWS; ++i)
        screen.cells[i][COLUMNS] = '\0';
    screen.bottom = ROWS - 1;

    pid_t pid = forkpty(&terminal, NULL, NULL, &size);
    if (pid < 0)
        return 2;
    if (pid == 0) {
        setenv("TERM", "xterm", 1);
        alarm(LIMIT_S);
        execvp(command[0], command);
        _exit(127);
    }
    bool seen = run(terminal, watches ? argv[2] : NULL, watches ? argv[3] : NULL);
    if (waitpid(pid, &status, 0) != pid)
        return 2;
    int last = ROWS - 1;
    while (last >= 0 && strspn(screen.cells[last], " ") == COLUMNS)
        --last;
    for (int i = 0; i <= last; ++i)
        print_row(screen.cells[i]);
    return !seen ? 3 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
