/*
 * calls.c FOLDER - makes every kind of call that libddprun-files.so replaces, on what files.sh has put in FOLDER, and
 * holds what it sees to what the same calls do on a file system. Exits 1 if anything differs.
 *
 * Property: it passes with the library and without it, with a private folder and without one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <utime.h>

extern char **environ;
int __xstat(int version, const char *path, struct stat *found);
int __lxstat(int version, const char *path, struct stat *found);
int __fxstatat(int version, int dirfd, const char *path, struct stat *found, int flags);
int __open_2(const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

static int failed;

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        errno = 0;                                                                                \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno)); \
            failed = 1;                                                                           \
        }                                                                                         \
    } while (0)

#define CHECK_FAILS(call, error) CHECK((call) == -1 && errno == (error))

static void
put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(close(fd) == 0);
}

static bool
has_from(int fd, const char *text)
{
    char bytes[4096] = "";
    ssize_t count = fd >= 0 ? read(fd, bytes, sizeof(bytes) - 1) : -1;
    if (fd >= 0)
        close(fd);
    return count == (ssize_t)strlen(text) && memcmp(bytes, text, (size_t)count) == 0;
}

static bool
has(const char *path, const char *text)
{
    return has_from(open(path, O_RDONLY), text);
}

static bool
is_gone(const char *path)
{
    struct stat found;
    int saved = errno;
    bool gone = lstat(path, &found) == -1 && errno == ENOENT && access(path, F_OK) == -1 && errno == ENOENT;
    errno = saved;
    return gone;
}

static void
check_opening(void)
{
    struct stat found;
    CHECK(has("kept", "kept\n"));
    int reader = open("kept", O_RDONLY), fd = open("kept", O_WRONLY | O_APPEND);
    CHECK(write(fd, "more\n", 5) == 5 && close(fd) == 0);
    CHECK(has("kept", "kept\nmore\n") && has("./sub/../kept", "kept\nmore\n") && has("to_sub/../kept", "kept\nmore\n"));
    close(reader);
    fd = open64("to_file", O_RDWR); /* a link to sub/one: the file is written, not the link */
    CHECK(fd >= 0 && pwrite(fd, "ONE", 3, 0) == 3 && close(fd) == 0);
    CHECK(has("sub/one", "ONE\n") && has("to_file", "ONE\n") && lstat("to_file", &found) == 0 &&
          S_ISLNK(found.st_mode));
    fd = creat64("made", 0640);
    CHECK(fd >= 0 && fstat(fd, &found) == 0 && (found.st_mode & 07777) == 0640 && close(fd) == 0);
    CHECK((fd = creat("sub/one", 0600)) >= 0 && fstat(fd, &found) == 0 && (found.st_mode & 07777) == 0644);
    CHECK(found.st_size == 0 && close(fd) == 0);
    int sub = open("sub", O_RDONLY | O_DIRECTORY);
    CHECK((fd = openat(sub, "../from_sub", O_WRONLY | O_CREAT, 0600)) >= 0 && close(fd) == 0);
    CHECK((fd = openat64(sub, "two", O_WRONLY | O_TRUNC)) >= 0 && write(fd, "2", 1) == 1 && close(fd) == 0);
    CHECK(has_from(__openat64_2(sub, "two", O_RDONLY), "2") && has_from(__open_2("sub/two", O_RDONLY), "2"));
    CHECK_FAILS(__open_2("sub/none", O_WRONLY), ENOENT);
    close(sub);
    CHECK_FAILS(open("made", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    CHECK_FAILS(open("kept", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    CHECK_FAILS(open("none/x", O_WRONLY | O_CREAT, 0600), ENOENT);
    CHECK_FAILS(open("kept/x", O_WRONLY | O_CREAT, 0600), ENOTDIR);
    CHECK_FAILS(open("sub", O_WRONLY), EISDIR);
    CHECK_FAILS(open("to_file", O_WRONLY | O_NOFOLLOW), ELOOP);
    CHECK_FAILS(open("", O_WRONLY | O_CREAT, 0600), ENOENT);
    CHECK_FAILS(openat(-7, "x", O_WRONLY | O_CREAT, 0600), EBADF);
    CHECK((fd = open("/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600)) >= 0 && write(fd, "x", 1) == 1);
    close(fd);
    /* In the overlay programs go on with a name. */
    CHECK((fd = open(".", O_RDWR | O_TMPFILE, 0600)) >= 0 || errno == EISDIR || errno == EOPNOTSUPP);
    close(fd);
    CHECK(truncate("sub/deep/three", 2) == 0 && has("sub/deep/three", "th"));
    CHECK_FAILS(truncate64("none", 2), ENOENT);
}

static void
check_streams(void)
{
    char line[100];
    FILE *stream = fopen("stream", "w");
    CHECK(stream != NULL && fputs("first\n", stream) >= 0 && fclose(stream) == 0);
    CHECK((stream = fopen64("stream", "a+")) != NULL && fputs("second\n", stream) >= 0);
    rewind(stream);
    CHECK(fgets(line, sizeof(line), stream) != NULL && strcmp(line, "first\n") == 0 && fclose(stream) == 0);
    CHECK((stream = fopen("stream", "r+e")) != NULL && fputs("FIRST", stream) >= 0 && fclose(stream) == 0);
    CHECK(has("stream", "FIRST\nsecond\n"));
    CHECK(fopen("stream", "wx") == NULL && errno == EEXIST);
    CHECK(fopen("none", "r+") == NULL && errno == ENOENT);
    CHECK((stream = fopen("sub/two", "r")) != NULL && (stream = freopen("reopened", "w", stream)) != NULL);
    CHECK(fputs("r", stream) >= 0 && (stream = freopen64("reopened", "r", stream)) != NULL && fgetc(stream) == 'r');
    CHECK(freopen("none/x", "w", stream) == NULL && errno == ENOENT);
    CHECK((stream = tmpfile()) != NULL && fputs("x", stream) >= 0 && fclose(stream) == 0);
}

static void
check_temporary(void)
{
    char name[] = "sub/tmpXXXXXX", other[] = "oXXXXXX.txt", folder[] = "dXXXXXX", wrong[] = "wrong", path[100];
    int fd = mkstemp(name);
    CHECK(fd >= 0 && strcmp(name, "sub/tmpXXXXXX") != 0 && write(fd, "tmp", 3) == 3 && close(fd) == 0 &&
          has(name, "tmp"));
    CHECK(rename(name, "sub/done") == 0 && has("sub/done", "tmp") && is_gone(name));
    CHECK((fd = mkostemps(other, 4, O_CLOEXEC)) >= 0 && close(fd) == 0 && unlink(other) == 0 && is_gone(other));
    CHECK(mkdtemp(folder) == folder);
    snprintf(path, sizeof(path), "%s/in", folder);
    put(path, "in");
    CHECK(has(path, "in") && rmdir(folder) == -1 && errno == ENOTEMPTY && unlink(path) == 0 && rmdir(folder) == 0);
    CHECK_FAILS(mkstemp(wrong), EINVAL);
}

static void
check_names(void)
{
    struct stat found, other;
    CHECK(unlink("sub/two") == 0 && is_gone("sub/two"));
    CHECK_FAILS(unlink("sub/two"), ENOENT);
    put("sub/two", "again");
    CHECK(has("sub/two", "again"));
    CHECK_FAILS(unlink("sub"), EISDIR);
    CHECK_FAILS(rmdir("sub"), ENOTEMPTY);
    CHECK(mkdir("folder", 0750) == 0 && stat("folder", &found) == 0 && (found.st_mode & 07777) == 0750);
    CHECK_FAILS(mkdir("folder", 0700), EEXIST);
    CHECK_FAILS(mkdir("sub", 0700), EEXIST);
    put("folder/x", "x");
    CHECK(rename("folder", "sub/folder") == 0 && has("sub/folder/x", "x") && is_gone("folder"));
    /* A real directory, with what was written and what was removed in it. */
    put("sub/deep/new", "new");
    CHECK(rename("sub", "moved") == 0 && is_gone("sub") && is_gone("sub/deep") && has("moved/deep/new", "new"));
    CHECK(has("moved/deep/three", "th") && has("moved/folder/x", "x") && has("moved/deep/four", "four\n"));
    CHECK(is_gone("moved/nothing") && stat("moved/deep", &found) == 0 && (found.st_mode & 07777) == 0755);
    CHECK(mkdir("sub", 0755) == 0 && is_gone("sub/one") && is_gone("sub/deep") && rmdir("sub") == 0);
    CHECK(rename("moved", "sub") == 0 && has("sub/deep/four", "four\n"));
    CHECK_FAILS(rename("sub", "sub/deep/in_itself"), EINVAL);
    CHECK_FAILS(rename("kept", "sub"), EISDIR);
    CHECK_FAILS(rename("sub", "kept"), ENOTDIR);
    CHECK_FAILS(renameat2(AT_FDCWD, "kept", AT_FDCWD, "made", RENAME_NOREPLACE), EEXIST);
    CHECK(link("untouched", "second_name") == 0 && stat("untouched", &found) == 0 && stat("second_name", &other) == 0);
    CHECK(found.st_ino == other.st_ino && found.st_nlink == 2);
    CHECK(symlink("sub/deep", "to_deep") == 0 && has("to_deep/new", "new"));
    put("to_deep/by_link", "by");
    CHECK(has("sub/deep/by_link", "by"));
    CHECK(symlinkat("dangling_target", AT_FDCWD, "dangling") == 0);
    put("dangling", "made by link");
    CHECK(has("dangling_target", "made by link") && unlink("dangling") == 0 && !is_gone("dangling_target"));
    CHECK(remove("dangling_target") == 0 && remove("to_deep") == 0 && unlinkat(AT_FDCWD, "second_name", 0) == 0);
    /* A link of the user's that the run leads elsewhere, as "latest" is. */
    CHECK(symlink("sub/deep", "latest.new") == 0 && rename("latest.new", "to_file") == 0 && has("to_file/new", "new"));
    CHECK(mkfifo("fifo", 0600) == 0 && lstat("fifo", &found) == 0 && S_ISFIFO(found.st_mode));
    int reader = open("fifo", O_RDONLY | O_NONBLOCK), writer = open("fifo", O_WRONLY);
    CHECK(write(writer, "f", 1) == 1 && close(writer) == 0 && has_from(reader, "f"));
}

static void
check_asking(void)
{
    char path[PATH_MAX], here[PATH_MAX], expected[2 * PATH_MAX];
    struct stat found;
    struct statx extended;
    struct statvfs system;
    CHECK(getcwd(here, sizeof(here)) == here);
    put("asked", "12345");
    snprintf(expected, sizeof(expected), "%s/asked", here);
    CHECK(realpath("sub/../asked", path) == path && strcmp(path, expected) == 0);
    char *resolved = canonicalize_file_name("asked");
    CHECK(resolved != NULL && strcmp(resolved, expected) == 0);
    free(resolved);
    CHECK(stat("asked", &found) == 0 && found.st_size == 5 && __xstat(1, "asked", &found) == 0 && found.st_size == 5);
    CHECK(__lxstat(1, "asked", &found) == 0 && __fxstatat(1, AT_FDCWD, "asked", &found, 0) == 0 && found.st_size == 5);
    CHECK(statx(AT_FDCWD, "asked", 0, STATX_SIZE, &extended) == 0 && extended.stx_size == 5);
    CHECK(fstatat(AT_FDCWD, "asked", &found, AT_SYMLINK_NOFOLLOW) == 0 && faccessat(AT_FDCWD, "asked", R_OK, 0) == 0);
    CHECK(euidaccess("asked", R_OK) == 0 && eaccess("asked", R_OK) == 0 && statvfs("asked", &system) == 0);
    CHECK(readlink("to_file", path, sizeof(path)) == 8 && readlinkat(AT_FDCWD, "to_file", path, sizeof(path)) == 8);
    CHECK_FAILS(getxattr("asked", "user.none", path, sizeof(path)), errno == ENOTSUP ? ENOTSUP : ENODATA);
    CHECK(listxattr("asked", NULL, 0) >= 0);
    CHECK(mkdir("own", 0755) == 0 && chdir("own") == 0 && getcwd(path, sizeof(path)) == path);
    snprintf(expected, sizeof(expected), "%s/own", here);
    CHECK(strcmp(path, expected) == 0);
    put("inside", "inside");
    CHECK(has("../own/inside", "inside") && has("../kept", "kept\nmore\n") && has("inside", "inside"));
    CHECK(getcwd(path, 3) == NULL && errno == ERANGE);
    char *current = get_current_dir_name();
    CHECK(current != NULL && strcmp(current, expected) == 0);
    free(current);
    CHECK(chdir("..") == 0 && getcwd(path, sizeof(path)) == path && strcmp(path, here) == 0);
}

static void
check_attributes(void)
{
    struct stat found;
    const struct timespec times[2] = {{1000, 0}, {2000, 0}};
    const struct timeval old_times[2] = {{3000, 0}, {4000, 0}};
    CHECK(chmod("untouched", 0600) == 0 && stat("untouched", &found) == 0 && (found.st_mode & 07777) == 0600);
    CHECK(utimensat(AT_FDCWD, "untouched", times, 0) == 0 && stat("untouched", &found) == 0 && found.st_mtime == 2000);
    CHECK(utimes("untouched", old_times) == 0 && stat("untouched", &found) == 0 && found.st_mtime == 4000);
    CHECK(utime("untouched", &(struct utimbuf){5, 6}) == 0 && stat("untouched", &found) == 0 && found.st_mtime == 6);
    CHECK(chown("untouched", (uid_t)-1, (gid_t)-1) == 0);
    int fd = open("read_only", O_RDONLY); /* which is not in the way of changing it */
    CHECK(fchmod(fd, 0604) == 0);
    close(fd);
    fd = open("also_read", O_RDONLY);
    CHECK(futimens(fd, times) == 0 && futimes(fd, old_times) == 0);
    CHECK(fchown(fd, (uid_t)-1, (gid_t)-1) == 0);
    close(fd);
    CHECK((fd = open("asked", O_RDWR)) >= 0 && fchmod(fd, 0611) == 0 && fstat(fd, &found) == 0);
    CHECK((found.st_mode & 07777) == 0611 && futimens(fd, times) == 0 && close(fd) == 0);
    CHECK(chmod("sub", 0755) == 0);
    CHECK_FAILS(chmod("none", 0600), ENOENT);
}

static void
check_directories(void)
{
    struct dirent **entries = NULL;
    CHECK(unlink("listed/a") == 0);
    put("listed/c", "c");
    put("listed/b", "B");
    CHECK(mkdir("scanned", 0700) == 0);
    put("scanned/c", "c");
    put("scanned/b", "B");
    int count = scandir("scanned", &entries, NULL, alphasort);
    CHECK(count == 4 && strcmp(entries[2]->d_name, "b") == 0 && strcmp(entries[3]->d_name, "c") == 0);
    for (int i = 0; i < count; ++i)
        free(entries[i]);
    free(entries);
    CHECK(unlink("scanned/b") == 0 && unlink("scanned/c") == 0 && rmdir("scanned") == 0);
    DIR *stream = opendir("listed");
    struct stat of_stream, of_path;
    CHECK(stream != NULL && fstat(dirfd(stream), &of_stream) == 0 && stat("listed", &of_path) == 0);
    CHECK(of_stream.st_ino == of_path.st_ino && of_stream.st_dev == of_path.st_dev);
    for (count = 0; readdir(stream) != NULL; ++count)
        continue;
    CHECK(count == 5);
    rewinddir(stream);
    CHECK(readdir64(stream) != NULL);
    const struct dirent *entry;
    put("listed/e", "e");
    rewinddir(stream);
    for (count = 0; (entry = readdir(stream)) != NULL; ++count) {
        if (entry->d_name[0] != '.' && entry->d_type == DT_REG) /* removed while it is read */
            CHECK(unlinkat(dirfd(stream), entry->d_name, 0) == 0);
    }
    CHECK(count == 6 && closedir(stream) == 0);
    CHECK((stream = fdopendir(open("listed", O_RDONLY | O_DIRECTORY))) != NULL);
    for (count = 0; readdir(stream) != NULL; ++count)
        continue;
    CHECK(count == 3 && closedir(stream) == 0);
    put("listed/x.bin", "");
    glob_t found;
    CHECK(glob("li*/*", 0, NULL, &found) == 0 && found.gl_pathc == 2 && strcmp(found.gl_pathv[1], "listed/x.bin") == 0);
    CHECK(remove(found.gl_pathv[0]) == 0 && remove(found.gl_pathv[1]) == 0 && rmdir("listed") == 0);
    globfree(&found);
    CHECK(opendir("listed") == NULL && errno == ENOENT);
}

static void
check_programs(void)
{
    posix_spawn_file_actions_t actions;
    char *arguments[] = {"./script", "argument", NULL};
    int status = 0;
    pid_t pid;
    put("script", "#!/bin/sh\necho \"$1\"\necho side >side\n");
    CHECK(chmod("script", 0755) == 0 && posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 1, "output", O_WRONLY | O_CREAT | O_TRUNC, 0644) == 0);
    CHECK(posix_spawn(&pid, "./script", &actions, NULL, arguments, environ) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0 && has("output", "argument\n") && has("side", "side\n"));
    posix_spawn_file_actions_destroy(&actions);
    for (int how = 0; how < 2; ++how) {
        CHECK((pid = fork()) >= 0);
        if (pid == 0) {
            if (freopen("output", "w", stdout) == NULL)
                _exit(9);
            if (how == 0)
                execv("./script", arguments);
            else
                execve("./script", arguments, environ);
            _exit(8);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0 && has("output", "argument\n") && unlink("output") == 0);
    }
    CHECK(system("cat side > by_shell && mv by_shell by_mv && rm side") == 0 && has("by_mv", "side\n") &&
          is_gone("side"));
    CHECK_FAILS(execv("./none", arguments), ENOENT);
}

enum { THREADS = 8, LINES = 50 };

static void *
append_lines(void *unused)
{
    (void)unused;
    for (int i = 0; i < LINES; ++i) {
        int fd = open("threads/log", O_WRONLY | O_APPEND);
        if (fd < 0 || write(fd, "1234567\n", 8) != 8 || close(fd) != 0)
            return "failed";
        char name[64];
        snprintf(name, sizeof(name), "threads/%d-%lx.%d", (int)getpid(), (unsigned long)pthread_self(), i);
        int made = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (made < 0 || close(made) != 0 || rename(name, i % 2 ? "threads/same" : name) != 0)
            return "failed";
        if (i % 2 == 0 && unlink(name) != 0)
            return "failed";
    }
    return NULL;
}

/* Eight threads are the first to write one real file, and so are two processes. */
static void
check_threads(void)
{
    pthread_t threads[THREADS];
    void *result;
    struct stat found;
    pid_t child = fork();
    for (int i = 0; i < THREADS; ++i)
        CHECK(pthread_create(&threads[i], NULL, append_lines, NULL) == 0);
    for (int i = 0; i < THREADS; ++i)
        CHECK(pthread_join(threads[i], &result) == 0 && result == NULL);
    if (child == 0)
        _exit(failed);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(stat("threads/log", &found) == 0 && found.st_size == 8 + 2 * THREADS * LINES * 8);
}

static void
check_errno(void)
{
    errno = 1234;
    int fd = open("kept", O_WRONLY | O_CREAT, 0600), after_open = errno;
    struct stat found;
    int status = stat("kept", &found), after_stat = errno;
    CHECK(fd >= 0 && after_open == 1234 && status == 0 && after_stat == 1234);
    close(fd);
    errno = 1234;
    int made = mkdir("errno", 0700), after_make = errno, removed = rmdir("errno"), after_remove = errno;
    CHECK(made == 0 && after_make == 1234 && removed == 0 && after_remove == 1234);
}

int
main(int argc, char **argv)
{
    if (argc != 2 || chdir(argv[1]) != 0)
        return 2;
    umask(022);
    check_opening();
    check_streams();
    check_temporary();
    check_names();
    check_asking();
    check_attributes();
    check_directories();
    check_programs();
    check_threads();
    check_errno();
    return failed;
}
