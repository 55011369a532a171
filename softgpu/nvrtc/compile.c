/*
 * compile.c - one compilation: the source and its headers in a private folder, and softgpu-cc as a child process.
 *
 * The child removes the folder when it ends, also when it ends early or this process dies; its results come through
 * files in memory. It gets none of the program's environment but the variables listed here: a preloaded library is not
 * for a compiler. Signals, threads and handlers of the program stay as they are.
 */
#include "program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Files of the folder. */
#define SOURCE_FILE "program.cu"
#define MACRO_FILE  "options.h"

/* ---- a failure that is not the source's ---- */

/* A line in the log, and once on stderr: programs show the log of wrong sources only. */
static nvrtcResult fail(struct _nvrtcProgram *program, const char *format, ...) __attribute__((format(printf, 2, 3)));

static nvrtcResult
fail(struct _nvrtcProgram *program, const char *format, ...)
{
    static bool said;
    char line[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    buffer_add_format(&program->log, "nvrtc: error: %s\n", line);
    if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        fprintf(stderr, "softgpu: nvrtcCompileProgram: %s\n", line);
    return NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
}

/* ---- the compiler ---- */

char *
compile_find_program(const char *name)
{
    const char *folders = getenv("PATH");
    char *path = NULL;
    if (strchr(name, '/') != NULL)
        return strdup(name);
    for (; folders != NULL && *folders != '\0'; folders += strspn(folders, ":")) {
        const int length = (int)strcspn(folders, ":");
        if (asprintf(&path, "%.*s/%s", length, folders, name) < 0)
            return NULL;
        if (access(path, X_OK) == 0)
            return path;
        free(path);
        folders += length;
    }
    return NULL;
}

char *
compile_find_compiler(void)
{
    static const char of_this_library = 0;
    Dl_info info;
    char real[PATH_MAX], *path = NULL;
    if (dladdr(&of_this_library, &info) != 0 && info.dli_fname != NULL && realpath(info.dli_fname, real) != NULL) {
        char *slash = strrchr(real, '/');
        *slash = '\0';
        if (asprintf(&path, "%s/../../bin/softgpu-cc", real) < 0)
            return NULL;
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return compile_find_program("softgpu-cc");
}

/* ---- the folder ---- */

/* "x/y" from "a/../x//./y"; *ups_p: how many folders the name leaves. */
static char *
normal_name(const char *name, size_t *ups_p)
{
    struct buffer made = {NULL, 0, 0, false};
    *ups_p = 0;
    buffer_add_string(&made, "");
    while (*name != '\0' && !made.failed) {
        const size_t length = strcspn(name, "/");
        const bool is_up = length == 2 && strncmp(name, "..", 2) == 0;
        const bool is_nothing = length == 0 || (length == 1 && *name == '.');
        if (is_up && made.length == 0) {
            ++*ups_p;
        } else if (is_up) {
            const char *slash = strrchr(made.data, '/');
            made.length = slash != NULL ? (size_t)(slash - made.data) : 0;
            made.data[made.length] = '\0';
        } else if (!is_nothing) {
            buffer_add_format(&made, "%s%.*s", made.length > 0 ? "/" : "", (int)length, name);
        }
        name += length + (name[length] == '/');
    }
    if (made.failed)
        buffer_free(&made);
    return made.data;
}

/* The folder in which headers are looked for by their names: so deep that names with ".." stay in the private folder.
 */
static char *
header_root(const struct _nvrtcProgram *program, const char *folder)
{
    size_t depth = 1;
    for (size_t i = 0; i < program->header_names.count; ++i) {
        size_t ups;
        free(normal_name(program->header_names.items[i], &ups));
        depth = ups + 1 > depth ? ups + 1 : depth;
    }
    struct buffer root = {NULL, 0, 0, false};
    buffer_add_string(&root, folder);
    for (; depth > 0; --depth)
        buffer_add_string(&root, "/headers");
    if (root.failed)
        buffer_free(&root);
    return root.data;
}

/* A file for the child: the lengths of its path in the folder and of its content, then both (softgpu/cc/process.c). */
static void
pack(struct buffer *files, const char *path, const char *content, size_t length)
{
    buffer_add_format(files, "%zu %zu\n%s", strlen(path), length, path);
    buffer_add(files, content, length);
}

/*
 * The source as the host compiler sees it: under the program's name, and after it a pointer for each name expression,
 * which makes templates real and which lowered.c reads.
 */
static void
write_source(const struct _nvrtcProgram *program, struct buffer *text)
{
    buffer_add_string(text, "#line 1 \"");
    for (const char *c = program->name; *c != '\0'; ++c) {
        if (*c == '"' || *c == '\\')
            buffer_add_string(text, "\\");
        buffer_add(text, c, 1);
    }
    buffer_add_format(text, "\"\n%s\n", program->source);
    for (size_t i = 0; i < program->expressions.count; ++i)
        buffer_add_format(text,
                          "#line %zu \"" EXPRESSION_FILE "\"\n"
                          "auto " LOWERED_SYMBOL "%zu __attribute__((used)) = ::softgpu::named(%s);\n",
                          i + 1, i, program->expressions.items[i]);
}

/* All files of the folder. */
static void
pack_all(const struct _nvrtcProgram *program, const struct request *request, const char *root_in_folder,
         struct buffer *files)
{
    struct buffer source = {NULL, 0, 0, false};
    write_source(program, &source);
    if (!source.failed)
        pack(files, SOURCE_FILE, source.data, source.length);
    pack(files, MACRO_FILE, request->macros.data, request->macros.length);
    for (size_t i = 0; i < program->headers.count; ++i) {
        struct buffer path = {NULL, 0, 0, false};
        buffer_add_format(&path, "%s/%s", root_in_folder, program->header_names.items[i]);
        if (!path.failed)
            pack(files, path.data, program->headers.items[i], strlen(program->headers.items[i]));
        files->failed = files->failed || path.failed;
        buffer_free(&path);
    }
    files->failed = files->failed || source.failed;
    buffer_free(&source);
}

/* A name that no other folder has; the child makes the folder. */
static char *
name_folder(void)
{
    static unsigned count;
    const char *parent = getenv("TMPDIR");
    char *folder = NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int length =
        asprintf(&folder, "%s/softgpu-nvrtc-%ld-%u-%lx", parent != NULL && *parent != '\0' ? parent : "/tmp",
                 (long)getpid(), __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED), (unsigned long)now.tv_nsec);
    return length >= 0 ? folder : NULL;
}

/* ---- the child ---- */

/* What the child gets: the packed files as its standard input, files for its output and messages, and for the make
 * rule. */
enum { INPUT, OUTPUT, MESSAGES, RULE, STREAMS };
static const int child_files[STREAMS] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, 3};

static void
list_environment(struct strings *environment)
{
    static const char *const names[] = {"PATH",
                                        "HOME",
                                        "TMPDIR",
                                        "LD_LIBRARY_PATH",
                                        "CUDA_HOME",
                                        "CPATH",
                                        "CPLUS_INCLUDE_PATH",
                                        "NVCC_CCBIN",
                                        "GCC_EXEC_PREFIX",
                                        "COMPILER_PATH",
                                        "LIBRARY_PATH",
                                        "SOFTGPU_RACES"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        const char *value = getenv(names[i]);
        if (value != NULL)
            strings_add_format(environment, "%s=%s", names[i], value);
    }
    strings_add(environment, "LC_ALL=C"); /* log.c reads the messages */
}

/* The folder of the program's name, in which NVRTC looks for headers too. */
static void
add_own_folder(const struct _nvrtcProgram *program, struct strings *command)
{
    const char *slash = strrchr(program->name, '/');
    const int length = slash != NULL ? (int)(slash - program->name) : 1;
    strings_add_format(command, "-Xcompiler=-iquote,\"%.*s\"", length, slash != NULL ? program->name : ".");
}

static void
make_command(const struct _nvrtcProgram *program, const struct request *request, const char *compiler,
             const char *folder, const char *root, struct strings *command)
{
    strings_add(command, compiler);
    strings_add(command, "--softgpu-module");
    strings_add_format(command, "--softgpu-module-folder=%s", folder);
    strings_add_format(command, "--softgpu-module-dir=%s", root);
    strings_add(command, "-Xcompiler=-fno-diagnostics-show-caret");
    strings_add_format(command, "-Xcompiler=-fmacro-prefix-map=%s/=", root);
    if (request->has_own_folder)
        add_own_folder(program, command);
    strings_add(command, "-include");
    strings_add_format(command, "%s/" MACRO_FILE, folder);
    for (size_t i = 0; i < request->arguments.count; ++i)
        strings_add(command, request->arguments.items[i]);
    strings_add(command, "-MD"); /* also of folders that come after the standard ones */
    strings_add_format(command, "-MF=/proc/self/fd/%d", child_files[RULE]);
    strings_add_format(command, "%s/" SOURCE_FILE, folder);
}

/* Starts it with signals as a shell starts programs. */
static int
start(const struct strings *command, const struct strings *environment, const int files[STREAMS], pid_t *child_p)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < STREAMS; ++i)
        posix_spawn_file_actions_adddup2(&actions, files[i], child_files[i]);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    const int error =
        posix_spawn(child_p, command->items[0], &actions, &attributes, command->items, environment->items);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* Until the child has ended, without waitpid(2), which waits for all children where a program ignores SIGCHLD. */
static void
await_end(pid_t child)
{
    const int handle = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd end = {.fd = handle, .events = POLLIN};
    while (handle >= 0 && poll(&end, 1, -1) < 0 && errno == EINTR)
        continue;
    if (handle >= 0)
        close(handle);
}

/* Its exit status; 0 too where the program takes the children itself: then the output tells. */
static int
wait_for(pid_t child)
{
    int status;
    await_end(child);
    while (waitpid(child, &status, 0) != child) {
        if (errno != EINTR)
            return 0;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Files in memory, above those that the child gets, so that none is overwritten before it is given. */
static bool
open_files(int files[STREAMS])
{
    static const char *const names[STREAMS] = {"softgpu-input", "softgpu-output", "softgpu-messages", "softgpu-rule"};
    bool ok = true;
    for (int i = 0; i < STREAMS; ++i) {
        const int file = memfd_create(names[i], MFD_CLOEXEC);
        files[i] = file >= 0 ? fcntl(file, F_DUPFD_CLOEXEC, 16) : -1;
        if (file >= 0)
            close(file);
        ok = ok && files[i] >= 0;
    }
    return ok;
}

static bool
write_input(int file, const struct buffer *input)
{
    for (size_t done = 0; done < input->length;) {
        const ssize_t wrote = write(file, input->data + done, input->length - done);
        if (wrote < 0 && errno != EINTR)
            return false;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return lseek(file, 0, SEEK_SET) == 0;
}

static void
close_files(const int files[STREAMS])
{
    for (int i = 0; i < STREAMS; ++i) {
        if (files[i] >= 0)
            close(files[i]);
    }
}

/* ---- all of it ---- */

/* The last line of what softgpu-cc has said of itself. */
static const char *
own_words(struct buffer *messages)
{
    static const char mark[] = "softgpu-cc: ";
    char *line = messages->data != NULL ? strstr(messages->data, mark) : NULL;
    if (line == NULL)
        return "the compiler has failed without a message";
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static nvrtcResult
judge(struct _nvrtcProgram *program, int status, struct outcome *outcome)
{
    enum { USAGE = 2, NOT_STARTED = 127 };
    if (outcome->messages.failed || outcome->module.failed || outcome->depends.failed)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    if (status == 0 && outcome->module.length > 0)
        return NVRTC_SUCCESS;
    if (status == USAGE || status >= NOT_STARTED)
        return fail(program, "%s (status %d)", own_words(&outcome->messages), status);
    return NVRTC_ERROR_COMPILATION;
}

static nvrtcResult
run_child(struct _nvrtcProgram *program, const struct strings *command, const struct buffer *input,
          struct outcome *outcome)
{
    struct strings environment = {NULL, 0, 0, false};
    int files[STREAMS] = {-1, -1, -1, -1};
    pid_t child;
    nvrtcResult result = NVRTC_ERROR_OUT_OF_MEMORY;
    list_environment(&environment);
    const bool has_memory = !command->failed && !environment.failed && !input->failed;
    if (has_memory && open_files(files) && write_input(files[INPUT], input)) {
        const int error = start(command, &environment, files, &child);
        if (error != 0) {
            result = fail(program, "cannot start %s: %s", command->items[0], strerror(error));
        } else {
            const int status = wait_for(child);
            const bool ok = buffer_add_file(&outcome->module, files[OUTPUT]) &&
                            buffer_add_file(&outcome->messages, files[MESSAGES]) &&
                            buffer_add_file(&outcome->depends, files[RULE]);
            result = ok ? judge(program, status, outcome) : NVRTC_ERROR_OUT_OF_MEMORY;
        }
    }
    close_files(files);
    strings_free(&environment);
    return result;
}

static nvrtcResult
refuse_absolute(struct _nvrtcProgram *program)
{
    for (size_t i = 0; i < program->header_names.count; ++i) {
        if (program->header_names.items[i][0] != '/')
            continue;
        buffer_add_format(
            &program->log,
            "%s: error: the header %s has an absolute name, which the stand-in does not support: give it a "
            "relative one\n\n1 error detected in the compilation of \"%s\".\n",
            program->name, program->header_names.items[i], program->name);
        return NVRTC_ERROR_COMPILATION;
    }
    return NVRTC_SUCCESS;
}

nvrtcResult
compile_run(struct _nvrtcProgram *program, const struct request *request, struct outcome *outcome)
{
    *outcome = (struct outcome){.folder = NULL};
    nvrtcResult result = refuse_absolute(program);
    if (result != NVRTC_SUCCESS)
        return result;
    char *compiler = compile_find_compiler();
    if (compiler == NULL)
        return fail(program,
                    "softgpu-cc, which compiles for the stand-in, is neither beside its libraries nor in PATH; "
                    "install it (package ddprun-softgpu)");
    struct strings command = {NULL, 0, 0, false};
    struct buffer files = {NULL, 0, 0, false};
    outcome->folder = name_folder();
    char *root = outcome->folder != NULL ? header_root(program, outcome->folder) : NULL;
    result = NVRTC_ERROR_OUT_OF_MEMORY;
    if (root != NULL) {
        pack_all(program, request, root + strlen(outcome->folder) + 1, &files);
        make_command(program, request, compiler, outcome->folder, root, &command);
        result = run_child(program, &command, &files, outcome);
    }
    strings_free(&command);
    buffer_free(&files);
    free(root);
    free(compiler);
    return result;
}

void
outcome_free(struct outcome *outcome)
{
    buffer_free(&outcome->messages);
    buffer_free(&outcome->module);
    buffer_free(&outcome->depends);
    free(outcome->folder);
}
