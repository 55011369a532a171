/*
 * stacks.c - see stacks.h.
 *
 * All of it happens in a thread of its own, which is the tracer: when it ends, the kernel lets go of whatever it still
 * holds, even of a thread that hangs in a driver and could not be stopped in time.
 */
#include "launcher/report/stacks.h"

#include "base/clock.h"
#include "launcher/common/xcalloc.h"
#include "launcher/watch/processes.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libunwind-ptrace.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    THREADS_AT_MOST = 64,
    FRAMES_AT_MOST = 64,
    ALL_MS = 3000, /* for the whole process */
    STOP_MS = 200, /* for one thread to stop */
    MAPPINGS_AT_MOST = 4096,
};

/* A piece of a file that is mapped. */
struct mapping {
    uint64_t begin, end, file_offset;
    char *path;
};

struct stack {
    pid_t thread;
    struct process as;
    const char *trouble; /* why there are no frames; NULL: there are */
    int count;
    uint64_t frames[FRAMES_AT_MOST]; /* addresses, the innermost first */
    bool shown;
};

struct snapshot {
    pid_t pid;
    bool continues;
    int64_t deadline_ms;
    int thread_count, more_threads;
    struct stack stacks[THREADS_AT_MOST];
    struct mapping *mappings;
    size_t mapping_count;
    int denied; /* errno of the first attempt, if it was refused */
};

static bool
is_late(const struct snapshot *of)
{
    return clock_now_ms() >= of->deadline_ms;
}

/* ---- what is mapped ---- */

static const struct mapping *
mapping_at(const struct snapshot *of, uint64_t address)
{
    for (size_t i = 0; i < of->mapping_count; ++i) {
        if (address >= of->mappings[i].begin && address < of->mappings[i].end)
            return &of->mappings[i];
    }
    return NULL;
}

static void
read_mappings(struct snapshot *of)
{
    char path[64], line[4096];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)of->pid);
    FILE *file = fopen(path, "re");
    of->mappings = xcalloc(MAPPINGS_AT_MOST, sizeof(*of->mappings));
    while (file != NULL && of->mapping_count < MAPPINGS_AT_MOST && fgets(line, sizeof(line), file) != NULL) {
        struct mapping mapping;
        const char *name = strchr(line, '/');
        line[strcspn(line, "\n")] = '\0';
        if (name == NULL)
            name = strstr(line, "[vdso]");
        if (name == NULL || sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &mapping.begin, &mapping.end,
                                   &mapping.file_offset) != 3)
            continue;
        mapping.path = xstrdup(name);
        of->mappings[of->mapping_count++] = mapping;
    }
    if (file != NULL)
        fclose(file);
}

/* ---- threads ---- */

static void
read_threads(struct snapshot *of)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)of->pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        pid_t thread = (pid_t)atoi(entry->d_name);
        if (thread <= 0)
            continue;
        if (of->thread_count == THREADS_AT_MOST)
            ++of->more_threads;
        else
            of->stacks[of->thread_count++] = (struct stack){.thread = thread};
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
        if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || address == 0)
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
    if (!process_read(of->pid, stack->thread, &stack->as))
        snprintf(stack->as.name, sizeof(stack->as.name), "?");
    stack->trouble = "not looked at: no time left";
    if (is_late(of))
        return;
    if (of->continues && would_be_interrupted(of->pid, stack->thread)) {
        stack->trouble = "waits for an event, as in epoll_wait; not looked at, which would interrupt it";
        return;
    }
    if (ptrace(PTRACE_SEIZE, stack->thread, NULL, NULL) != 0) {
        of->denied = of->denied == 0 ? errno : of->denied;
        stack->trouble = "cannot be looked at";
        return;
    }
    stack->trouble = "does not stop, so it hangs in the system (a driver, or a file server?)";
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

/* ---- words ---- */

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

/* Return addresses are behind the call, which may be a function's last: the byte before them is in the call. */
static void
describe_frame(const struct snapshot *of, uint64_t address, bool innermost, struct writer *writer)
{
    const struct mapping *mapping = mapping_at(of, address);
    if (mapping == NULL) {
        add_line(writer, "? (0x%" PRIx64 ")", address);
        return;
    }
    const char *slash = strrchr(mapping->path, '/');
    const char *module = slash != NULL ? slash + 1 : mapping->path;
    uint64_t file_offset = address - mapping->begin + mapping->file_offset;
    uint64_t back = innermost ? 0 : 1;
    struct symbol symbol;
    if (is_late(of) || !symbols_find(mapping->path, file_offset - back, &symbol))
        add_line(writer, "? (%s, at 0x%" PRIx64 " of the file)", module, file_offset);
    else if (symbol.name[0] == '\0')
        add_line(writer, "? (%s+0x%" PRIx64 ")", module, symbol.address + back);
    else
        add_line(writer, "%s+0x%" PRIx64 " (%s+0x%" PRIx64 ")", symbol.name, symbol.offset + back, module,
                 symbol.address + back);
}

static void
describe_frames(const struct snapshot *of, const struct stack *stack, struct writer *writer)
{
    writer->indent += 2;
    for (int i = 0; i < stack->count; ++i)
        describe_frame(of, stack->frames[i], i == 0, writer);
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
        add_line(writer, "no stacks: process %d is gone", (int)of->pid);
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

void
stacks_describe(pid_t pid, bool continues, int indent, char *text, size_t bytes)
{
    struct writer writer = {.text = text, .bytes = bytes, .indent = indent};
    struct snapshot *of = xcalloc(1, sizeof(*of));
    pthread_t tracer;
    *of = (struct snapshot){.pid = pid, .continues = continues, .deadline_ms = clock_now_ms() + ALL_MS};
    if (bytes > 0)
        text[0] = '\0';
    read_threads(of);
    read_mappings(of);
    if (pthread_create(&tracer, NULL, take_stacks, of) == 0) {
        pthread_join(tracer, NULL);
        describe_all(of, &writer);
    } else {
        add_line(&writer, "no stacks: out of threads");
    }
    for (size_t i = 0; i < of->mapping_count; ++i)
        free(of->mappings[i].path);
    free(of->mappings);
    free(of);
}

/* ---- symbols: elf(5) ---- */

enum { PROGRAM_HEADERS_AT_MOST = 256, SECTIONS_AT_MOST = 65536, SYMBOLS_AT_ONCE = 2048 };

static bool
read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool
read_header(int fd, Elf64_Ehdr *header)
{
    return read_at(fd, header, sizeof(*header), 0) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(Elf64_Phdr);
}

static bool
find_address(int fd, const Elf64_Ehdr *header, uint64_t file_offset, uint64_t *address)
{
    for (unsigned i = 0; i < header->e_phnum && i < PROGRAM_HEADERS_AT_MOST; ++i) {
        Elf64_Phdr segment;
        if (!read_at(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)))
            return false;
        if (segment.p_type != PT_LOAD || file_offset < segment.p_offset ||
            file_offset - segment.p_offset >= segment.p_filesz)
            continue;
        *address = file_offset - segment.p_offset + segment.p_vaddr;
        return true;
    }
    return false;
}

/* Among the symbols of one section: the function that `address` is in. */
static bool
find_in_section(int fd, const Elf64_Shdr *section, uint64_t address, Elf64_Sym *found)
{
    Elf64_Sym *symbols = malloc(SYMBOLS_AT_ONCE * sizeof(*symbols));
    uint64_t left = section->sh_size / sizeof(*symbols), at = section->sh_offset;
    bool any = false;
    while (symbols != NULL && left > 0 && !any) {
        size_t count = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
        if (!read_at(fd, symbols, count * sizeof(*symbols), at))
            break;
        for (size_t i = 0; i < count && !any; ++i) {
            unsigned type = ELF64_ST_TYPE(symbols[i].st_info);
            any = (type == STT_FUNC || type == STT_GNU_IFUNC) && symbols[i].st_shndx != SHN_UNDEF &&
                  address >= symbols[i].st_value && address - symbols[i].st_value < symbols[i].st_size;
            if (any)
                *found = symbols[i];
        }
        left -= count;
        at += count * sizeof(*symbols);
    }
    free(symbols);
    return any;
}

static void
read_name(int fd, const Elf64_Shdr *strings, const Elf64_Sym *found, struct symbol *symbol)
{
    char name[sizeof(symbol->name)] = "";
    if (found->st_name >= strings->sh_size || strings->sh_offset + found->st_name > INT64_MAX)
        return;
    if (pread(fd, name, sizeof(name) - 1, (off_t)(strings->sh_offset + found->st_name)) <= 0)
        return;
    for (char *at = name; *at != '\0'; ++at) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    memcpy(symbol->name, name, sizeof(name));
}

/* In the full table if the file has one, else in that of the dynamic linker. */
static void
find_name(int fd, const Elf64_Ehdr *header, struct symbol *symbol)
{
    static const Elf64_Word types[] = {SHT_SYMTAB, SHT_DYNSYM};
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]) && symbol->name[0] == '\0'; ++t) {
        for (unsigned i = 0; i < header->e_shnum && i < SECTIONS_AT_MOST; ++i) {
            Elf64_Shdr section, strings;
            Elf64_Sym found;
            if (header->e_shentsize != sizeof(section) ||
                !read_at(fd, &section, sizeof(section), header->e_shoff + i * sizeof(section)))
                return;
            if (section.sh_type != types[t] || section.sh_link >= header->e_shnum ||
                !read_at(fd, &strings, sizeof(strings), header->e_shoff + section.sh_link * sizeof(strings)) ||
                !find_in_section(fd, &section, symbol->address, &found))
                continue;
            symbol->offset = symbol->address - found.st_value;
            read_name(fd, &strings, &found, symbol);
        }
    }
}

bool
symbols_find(const char *path, uint64_t file_offset, struct symbol *symbol_p)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* whatever it has become */
    if (fd < 0)
        return false;
    Elf64_Ehdr header;
    struct symbol symbol = {0};
    bool found = read_header(fd, &header) && find_address(fd, &header, file_offset, &symbol.address);
    if (found) {
        find_name(fd, &header, &symbol);
        *symbol_p = symbol;
    }
    close(fd);
    return found;
}
