/*
 * stacks.c - see report.h.
 *
 * Addresses are taken in a thread of its own, which is the tracer: when it ends, the kernel lets go of whatever it
 * still holds, even of a thread that hangs in a driver and could not be stopped in time. What they mean is looked up
 * after that, in a process of its own: programs and their debug information come from users, and may be damaged, huge,
 * or on a file server that does not answer.
 */
#include "launcher/report/report.h"

#include "base/clock.h"
#include "base/printable.h"
#include "launcher/common/helper.h"
#include "launcher/common/xcalloc.h"
#include "launcher/watch/processes.h"

#include <dirent.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <libunwind-ptrace.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    THREADS_AT_MOST = 64,
    FRAMES_AT_MOST = 64,
    ALL_MS = 3000, /* for the whole process */
    STOP_MS = 200, /* for one thread to stop */
    FRAME_BYTES = 1024,
};

struct stack {
    pid_t thread;
    struct process as;
    const char *trouble; /* why there are no frames; NULL: there are */
    int count;
    uint64_t frames[FRAMES_AT_MOST];         /* addresses, the innermost first */
    char texts[FRAMES_AT_MOST][FRAME_BYTES]; /* lines for each of them; empty: nothing is known */
    bool shown;
};

/* In memory that the helper shares. */
struct snapshot {
    struct stacks_subject subject;
    int64_t deadline_ms;
    int thread_count, more_threads;
    struct stack stacks[THREADS_AT_MOST];
    char *maps; /* as /proc has it; NULL: nothing is known */
    int indent; /* of frames */
    int denied; /* errno of the first attempt, if it was refused */
};

static bool
is_late(const struct snapshot *of)
{
    return clock_now_ms() >= of->deadline_ms;
}

/* ---- lines ---- */

struct writer {
    char *text;
    size_t bytes, used;
    int indent;
};

static void __attribute__((format(printf, 2, 3))) add_line(struct writer *writer, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    size_t wanted = (size_t)writer->indent + strlen(line) + 1;
    if (writer->used + wanted >= writer->bytes)
        return; /* whole lines only */
    writer->used += (size_t)snprintf(writer->text + writer->used, writer->bytes - writer->used, "%*s%s\n",
                                     writer->indent, "", line);
}

/* ---- threads ---- */

static void
read_threads(struct snapshot *of)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)of->subject.pid);
    DIR *folder = opendir(path);
    if (of->subject.crashed > 0)
        of->stacks[of->thread_count++].thread = of->subject.crashed;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        pid_t thread = (pid_t)atoi(entry->d_name);
        if (thread <= 0 || thread == of->subject.crashed)
            continue;
        if (of->thread_count == THREADS_AT_MOST)
            ++of->more_threads;
        else
            of->stacks[of->thread_count++].thread = thread;
    }
    if (folder != NULL)
        closedir(folder);
}

/* Waits until a thread that was asked to has stopped; an end is left for others to notice. */
static bool
has_stopped(const struct snapshot *of, pid_t thread)
{
    int64_t until_ms = clock_now_ms() + STOP_MS;
    until_ms = until_ms < of->deadline_ms ? until_ms : of->deadline_ms;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)thread, &info, WSTOPPED | WNOHANG | __WALL) != 0)
            return false;
        if (info.si_pid == thread)
            return true;
        if (clock_now_ms() >= until_ms)
            return false;
        poll(NULL, 0, 1);
    }
}

/* Of a thread that has crashed, from where the signal has met it: what lies before is how it was handled. A call of a
 * null pointer leads to address 0. */
static void
unwind(struct snapshot *of, struct stack *stack, unw_addr_space_t space)
{
    void *accessed = _UPT_create(stack->thread);
    unw_cursor_t cursor;
    stack->trouble = "cannot be unwound";
    if (accessed == NULL || unw_init_remote(&cursor, space, accessed) != 0)
        goto out;
    do {
        unw_word_t address;
        if (stack->thread == of->subject.crashed && unw_is_signal_frame(&cursor) > 0)
            stack->count = 0;
        if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || (address == 0 && stack->count > 0))
            break;
        stack->trouble = NULL;
        stack->frames[stack->count++] = address;
    } while (stack->count < FRAMES_AT_MOST && !is_late(of) && unw_step(&cursor) > 0);
out:
    if (accessed != NULL)
        _UPT_destroy(accessed);
}

/* In a system call that a stop ends with EINTR though no signal came (signal(7): "Interruption of system calls"). */
static bool
would_be_interrupted(pid_t pid, pid_t thread)
{
    static const long calls[] = {SYS_epoll_wait, SYS_epoll_pwait,     SYS_epoll_pwait2,  SYS_semop,
                                 SYS_semtimedop, SYS_rt_sigtimedwait, SYS_io_getevents,  SYS_io_pgetevents,
                                 SYS_msgrcv,     SYS_msgsnd,          SYS_io_uring_enter};
    char path[64];
    long call = -1;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)thread);
    FILE *file = fopen(path, "re");
    bool known = file != NULL && fscanf(file, "%ld", &call) == 1;
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; known && i < sizeof(calls) / sizeof(calls[0]); ++i) {
        if (call == calls[i])
            return true;
    }
    return false;
}

static void
take_stack(struct snapshot *of, struct stack *stack, unw_addr_space_t space)
{
    if (!process_read(of->subject.pid, stack->thread, &stack->as))
        snprintf(stack->as.name, sizeof(stack->as.name), "?");
    stack->trouble = "not read: no time left";
    if (is_late(of))
        return;
    if (of->subject.continues && would_be_interrupted(of->subject.pid, stack->thread)) {
        stack->trouble = "waits for an event, as in epoll_wait; not read, because that would interrupt it";
        return;
    }
    if (ptrace(PTRACE_SEIZE, stack->thread, NULL, NULL) != 0) {
        of->denied = of->denied == 0 ? errno : of->denied;
        stack->trouble = "cannot be read";
        return;
    }
    stack->trouble = "does not stop: it hangs in the system (a driver, or a file server?)";
    if (ptrace(PTRACE_INTERRUPT, stack->thread, NULL, NULL) == 0 && has_stopped(of, stack->thread))
        unwind(of, stack, space);
    (void)ptrace(PTRACE_DETACH, stack->thread, NULL, NULL);
}

/* The tracer. */
static void *
take_stacks(void *argument)
{
    struct snapshot *of = argument;
    unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
    for (int i = 0; i < of->thread_count && space != NULL; ++i)
        take_stack(of, &of->stacks[i], space);
    if (space != NULL)
        unw_destroy_addr_space(space);
    return NULL;
}

/* ---- functions and lines ---- */

/* What is known without a look at its file: which one is mapped there. */
static void
describe_address(const struct snapshot *of, uint64_t address, struct writer *writer)
{
    char line[4096], path[4096];
    FILE *maps = of->maps != NULL ? fmemopen(of->maps, strlen(of->maps), "r") : NULL;
    bool found = false;
    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL) {
        uint64_t begin, end, offset;
        found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095[^\n]", &begin, &end, &offset,
                       path) == 4 &&
                address >= begin && address < end;
        if (found)
            add_line(writer, "? (%s, at 0x%" PRIx64 " of the file)", file_name_of(path), address - begin + offset);
    }
    if (maps != NULL)
        fclose(maps);
    if (!found)
        add_line(writer, "? (0x%" PRIx64 ")", address);
}

struct source {
    const char *file; /* NULL: not known */
    int line;
};

/* A line for each call that the compiler has inlined at `address`, innermost first. `source` is where that is, and
 * becomes where the function around them is. */
static void
add_inlined(Dwfl_Module *module, Dwarf_Addr address, struct source *source, struct writer *writer)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), *scopes = NULL, *around = NULL, inner;
    Dwarf_Files *files;
    if (source->file == NULL || unit == NULL || dwarf_getsrcfiles(unit, &files, NULL) != 0 ||
        dwarf_getscopes(unit, address - bias, &scopes) <= 0)
        return;
    /* dwarf_getscopes() continues with what lies around an inlined function in the source; wanted is the code. */
    bool known = dwarf_offdie(dwfl_module_getdwarf(module, &bias), dwarf_dieoffset(&scopes[0]), &inner) != NULL;
    int count = known ? dwarf_getscopes_die(&inner, &around) : 0;
    for (int i = 0; i < count && dwarf_tag(&around[i]) != DW_TAG_subprogram; ++i) {
        Dwarf_Attribute attribute;
        Dwarf_Word file = 0, line = 0;
        if (dwarf_tag(&around[i]) != DW_TAG_inlined_subroutine)
            continue;
        add_line(writer, "%s (inlined) at %s:%d", dwarf_diename(&around[i]), file_name_of(source->file), source->line);
        (void)dwarf_formudata(dwarf_attr(&around[i], DW_AT_call_file, &attribute), &file);
        (void)dwarf_formudata(dwarf_attr(&around[i], DW_AT_call_line, &attribute), &line);
        *source = (struct source){dwarf_filesrc(files, file, NULL, NULL), (int)line};
    }
    free(scopes);
    free(around);
}

/* A function is named only if the address is within its size; what is merely nearest would mislead. */
static void
add_function(Dwfl *dwfl, uint64_t address, uint64_t back, struct writer *writer)
{
    Dwarf_Addr at = address - back, bias;
    Dwfl_Module *module = dwfl_addrmodule(dwfl, at);
    if (module == NULL || dwfl_module_getelf(module, &bias) == NULL)
        return;
    struct source source = {0};
    Dwfl_Line *line = dwfl_module_getsrc(module, at);
    if (line != NULL)
        source.file = dwfl_lineinfo(line, NULL, &source.line, NULL, NULL, NULL);
    add_inlined(module, at, &source, writer);

    GElf_Off offset;
    GElf_Sym symbol;
    const char *name = dwfl_module_addrinfo(module, at, &offset, &symbol, NULL, NULL, NULL);
    char function[128] = "?", place[256] = "";
    if (name != NULL && offset < symbol.st_size)
        snprintf(function, sizeof(function), "%.96s+0x%" PRIx64, name, offset + back);
    if (source.file != NULL)
        snprintf(place, sizeof(place), " at %s:%d", file_name_of(source.file), source.line);
    const char *path = dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    add_line(writer, "%s (%s+0x%" PRIx64 ")%s", function, file_name_of(path), address - bias, place);
}

/* The helper. Return addresses are after the call, which may be a function's last: the byte before them is in it. */
static int
name_frames(const void *snapshot)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo};
    struct snapshot *of = (struct snapshot *)snapshot;
    unsetenv("DEBUGINFOD_URLS"); /* no server is asked */
    FILE *maps = fmemopen(of->maps, strlen(of->maps), "r");
    Dwfl *dwfl = dwfl_begin(&callbacks);
    if (maps == NULL || dwfl == NULL || dwfl_linux_proc_maps_report(dwfl, maps) != 0 ||
        dwfl_report_end(dwfl, NULL, NULL) != 0)
        return EIO;
    for (int i = 0; i < of->thread_count; ++i) {
        struct stack *stack = &of->stacks[i];
        for (int k = 0; k < stack->count; ++k) {
            struct writer writer = {.text = stack->texts[k], .bytes = FRAME_BYTES};
            add_function(dwfl, stack->frames[k], k > 0, &writer);
        }
    }
    return 0;
}

/* ---- words ---- */

static bool
is_same(const struct stack *a, const struct stack *b)
{
    return a->trouble == NULL && b->trouble == NULL && a->count == b->count &&
           memcmp(a->frames, b->frames, (size_t)a->count * sizeof(a->frames[0])) == 0;
}

static const char *
state_name(char state)
{
    switch (state) {
    case 'R':
        return "runs";
    case 'S':
        return "sleeps";
    case 'D':
        return "waits in the system";
    case 'T':
    case 't':
        return "is stopped";
    case 'Z':
    case 'X':
        return "has ended";
    default:
        return "?";
    }
}

static void
describe_frames(const struct snapshot *of, const struct stack *stack, struct writer *writer)
{
    writer->indent += 2;
    for (int i = 0; i < stack->count; ++i) {
        const char *at = stack->texts[i];
        if (at[0] == '\0')
            describe_address(of, stack->frames[i], writer);
        for (; at[0] != '\0'; at += strcspn(at, "\n") + 1)
            add_line(writer, "%.*s", (int)strcspn(at, "\n"), at);
    }
    writer->indent -= 2;
}

static void
describe_thread(struct snapshot *of, int at, struct writer *writer)
{
    struct stack *stack = &of->stacks[at];
    int others = 0;
    for (int i = at + 1; i < of->thread_count; ++i) {
        if (!of->stacks[i].shown && is_same(stack, &of->stacks[i])) {
            of->stacks[i].shown = true;
            ++others;
        }
    }
    char more[48] = "";
    if (others > 0)
        snprintf(more, sizeof(more), ", and %d other%s in the same place", others, others == 1 ? "" : "s");
    if (stack->trouble != NULL)
        add_line(writer, "thread %d (%s): %s", (int)stack->thread, stack->as.name, stack->trouble);
    else if (stack->thread == of->subject.crashed)
        add_line(writer, "thread %d (%s) received SIG%s:", (int)stack->thread, stack->as.name,
                 sigabbrev_np(of->subject.signal));
    else
        add_line(writer, "thread %d (%s) %s%s:", (int)stack->thread, stack->as.name, state_name(stack->as.state), more);
    describe_frames(of, stack, writer);
}

static void
describe_denial(const struct snapshot *of, struct writer *writer)
{
    char scope[8] = "";
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file != NULL) {
        if (fgets(scope, sizeof(scope), file) == NULL)
            scope[0] = '\0';
        fclose(file);
    }
    scope[strcspn(scope, "\n")] = '\0';
    add_line(writer, "no stacks: ptrace is not permitted (%s%s%s%s)", strerror(of->denied),
             scope[0] != '\0' ? "; kernel.yama.ptrace_scope is " : "", scope,
             of->denied == EPERM ? "; another debugger, a container without CAP_SYS_PTRACE, or a setuid program?" : "");
}

static void
describe_all(struct snapshot *of, struct writer *writer)
{
    bool any = false;
    for (int i = 0; i < of->thread_count; ++i)
        any = any || of->stacks[i].trouble == NULL;
    if (of->thread_count == 0)
        add_line(writer, "no stacks: process %d is gone", (int)of->subject.pid);
    else if (!any && of->denied != 0)
        describe_denial(of, writer);
    else
        for (int i = 0; i < of->thread_count; ++i) {
            if (!of->stacks[i].shown)
                describe_thread(of, i, writer);
        }
    if (of->more_threads > 0)
        add_line(writer, "and %d threads more", of->more_threads);
}

static char *
read_maps(pid_t pid)
{
    char path[64], *maps = NULL;
    size_t room = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        (void)!getdelim(&maps, &room, '\0', file);
        fclose(file);
    }
    return maps;
}

void
stacks_describe(const struct stacks_subject *subject, int indent, char *text, size_t bytes)
{
    struct writer writer = {.text = text, .bytes = bytes, .indent = indent};
    struct snapshot *of =
        mmap(NULL, sizeof(*of), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_t tracer;
    if (bytes > 0)
        text[0] = '\0';
    bool taken = of != MAP_FAILED;
    if (taken) {
        of->subject = *subject;
        of->deadline_ms = clock_now_ms() + ALL_MS;
        read_threads(of);
        of->maps = read_maps(subject->pid);
        taken = pthread_create(&tracer, NULL, take_stacks, of) == 0 && pthread_join(tracer, NULL) == 0;
    }
    if (subject->seen != NULL)
        atomic_store(subject->seen, 1);
    if (taken) {
        if (of->maps != NULL)
            (void)helper_do(name_frames, of); /* what it has not named is shown by its address */
        describe_all(of, &writer);
    } else {
        add_line(&writer, "no stacks: out of threads or memory");
    }
    printable_make(text, "\n");
    if (of != MAP_FAILED) {
        free(of->maps);
        munmap(of, sizeof(*of));
    }
}
