/*
 * random_operations.c FOLDER SEED COUNT - a sequence of COUNT file operations, drawn with SEED, in FOLDER, and a line
 * for each with its result, its errno and what it read; then all that is seen in FOLDER.
 *
 * Property: files.sh runs it twice, on the real folder and on a copy of it behind libddprun-files.so, and both print
 * the same. What the library does not promise is not drawn: the mode of directories, moving a directory that is the
 * current one. "FOLDER" is printed for the folder's path.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX];
static uint64_t state;

static unsigned
draw(unsigned count)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state * 0x2545F4914F6CDD1DULL >> 33) % count);
}

/* A path that may exist, in one of many spellings. */
static const char *
draw_path(void)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    static const char *const names[] = {"a", "b", "c", "sub", "deep", "to_file", "to_sub", "nowhere", "locked"};
    char *path = paths[next++ % 4];
    path[0] = '\0';
    if (draw(5) == 0)
        sprintf(path, "%s/", root);
    else if (draw(8) == 0)
        strcat(path, "./");
    for (unsigned depth = 1 + draw(3), i = 0; i < depth; ++i) {
        strcat(path, names[draw(sizeof(names) / sizeof(names[0]))]);
        if (i + 1 < depth)
            strcat(path, draw(10) == 0 ? "//" : draw(12) == 0 ? "/./" : "/");
    }
    unsigned ending = draw(40);
    if (ending < 3)
        strcat(path, ending == 0 ? "/" : ending == 1 ? "/." : "/..");
    return path;
}

/* Without the folder's own path, which differs. */
static void
print_text(const char *text)
{
    size_t length = strlen(root);
    for (const char *at; (at = strstr(text, root)) != NULL; text = at + length)
        printf("%.*sFOLDER", (int)(at - text), text);
    printf("%s", text);
}

static void
print_result(const char *operation, const char *path, long result)
{
    int error = errno;
    printf("%s ", operation);
    print_text(path);
    printf(" -> %ld %s\n", result < 0 ? -1 : result, result < 0 ? strerrorname_np(error) : "");
}

static unsigned
hash(const char *bytes, ssize_t count)
{
    unsigned value = 5381;
    for (ssize_t i = 0; i < count; ++i)
        value = value * 33 + (unsigned char)bytes[i];
    return value;
}

static void
print_content(int fd)
{
    char bytes[65536];
    ssize_t count = read(fd, bytes, sizeof(bytes));
    printf("    %zd bytes %08x\n", count, hash(bytes, count));
}

static int
draw_flags(void)
{
    int flags = (int[]){O_RDONLY, O_WRONLY, O_RDWR}[draw(3)];
    static const int more[] = {O_CREAT, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW, O_DIRECTORY};
    for (unsigned i = 0; i < sizeof(more) / sizeof(more[0]); ++i) {
        if (draw(i < 2 ? 2 : 6) == 0)
            flags |= more[i];
    }
    /* Kernels differ in these. */
    return (flags & O_CREAT) != 0 ? flags & ~O_DIRECTORY : flags & ~O_EXCL;
}

static void
use_fd(int fd, int flags)
{
    struct stat found;
    char text[100];
    if (fd < 0)
        return;
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
        if ((flags & O_ACCMODE) != O_RDONLY) {
            int length = sprintf(text, "line %u\n", draw(1000000));
            printf("    wrote %zd\n", write(fd, text, (size_t)length));
        }
        if ((flags & O_ACCMODE) != O_WRONLY && lseek(fd, 0, SEEK_SET) == 0)
            print_content(fd);
        printf("    mode %o size %lld\n", found.st_mode, (long long)found.st_size);
    }
    close(fd);
}

static void
print_stat(const char *path, bool follow)
{
    struct stat found;
    int result = follow ? stat(path, &found) : lstat(path, &found);
    print_result(follow ? "stat" : "lstat", path, result);
    if (result == 0 && S_ISREG(found.st_mode))
        printf("    %o %lld, %u links\n", found.st_mode, (long long)found.st_size, (unsigned)found.st_nlink);
    else if (result == 0)
        printf("    %o\n", found.st_mode & S_IFMT);
}

static int
by_name(const void *a, const void *b)
{
    return strcmp((*(struct dirent *const *)a)->d_name, (*(struct dirent *const *)b)->d_name);
}

/* As scandir() by name, which shows a real directory without what the run has made in it. */
static int
entries_of(const char *path, struct dirent ***entries)
{
    DIR *stream = opendir(path);
    int count = 0;
    *entries = NULL;
    if (stream == NULL)
        return -1;
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL; ++count) {
        *entries = realloc(*entries, (size_t)(count + 1) * sizeof(**entries));
        (*entries)[count] = memcpy(malloc(entry->d_reclen), entry, entry->d_reclen);
    }
    closedir(stream);
    if (count > 0)
        qsort(*entries, (size_t)count, sizeof(**entries), by_name);
    return count;
}

static void
list(const char *path)
{
    struct dirent **entries = NULL;
    int count = entries_of(path, &entries);
    print_result("entries", path, count);
    for (int i = 0; i < count; ++i) {
        printf("    %s %d\n", entries[i]->d_name, entries[i]->d_type);
        free(entries[i]);
    }
    free(entries);
    DIR *stream = opendir(path);
    unsigned names = 0, seen = 0;
    print_result("opendir", path, stream != NULL ? 0 : -1);
    for (const struct dirent *entry; stream != NULL && (entry = readdir(stream)) != NULL; ++seen)
        names += hash(entry->d_name, (ssize_t)strlen(entry->d_name)); /* in any order */
    printf("    %u entries %08x\n", seen, names);
    if (stream != NULL)
        closedir(stream);
}

static void
stay_in(const char *path)
{
    char here[PATH_MAX];
    int back = open(".", O_RDONLY | O_DIRECTORY), result = chdir(path);
    print_result("chdir", path, result);
    if (result == 0) {
        printf("    getcwd ");
        print_text(getcwd(here, sizeof(here)) != NULL ? here : "?");
        printf("\n");
        int fd = open("in", O_WRONLY | O_CREAT | O_APPEND, 0640);
        print_result("open", "in", fd >= 0 ? 0 : -1);
        use_fd(fd, O_WRONLY);
        print_stat("../b", true);
        print_result("rename", "in", rename("in", "c"));
        list(".");
        list("..");
    }
    if (fchdir(back) != 0)
        abort();
    close(back);
}

static void
use_dirfd(const char *path)
{
    int dirfd = open(path, O_RDONLY | O_DIRECTORY);
    print_result("open directory", path, dirfd >= 0 ? 0 : -1);
    if (dirfd < 0)
        return;
    int flags = draw_flags(), fd = openat(dirfd, "b", flags, 0600);
    print_result("openat", "b", fd >= 0 ? flags : -1);
    use_fd(fd, flags);
    print_result("mkdirat", "sub", mkdirat(dirfd, "sub", 0755));
    print_result("unlinkat", "a", unlinkat(dirfd, "a", 0));
    print_result("unlinkat", "deep", unlinkat(dirfd, "deep", AT_REMOVEDIR));
    print_result("renameat", "b", renameat(dirfd, "b", AT_FDCWD, draw_path()));
    close(dirfd);
}

static void
use_stream(const char *path)
{
    static const char *const modes[] = {"r", "r+", "w", "w+", "a", "a+", "wx", "rb", "w+b"};
    const char *mode = modes[draw(sizeof(modes) / sizeof(modes[0]))];
    FILE *stream = draw(2) ? fopen(path, mode) : freopen(path, mode, tmpfile());
    print_result(mode, path, stream != NULL ? 0 : -1);
    if (stream == NULL)
        return;
    struct stat found;
    char text[200] = "";
    if (fstat(fileno(stream), &found) == 0 && S_ISREG(found.st_mode)) {
        if (mode[0] != 'r')
            fprintf(stream, "text %u\n", draw(1000));
        fflush(stream);
        rewind(stream);
        printf("    %s", fgets(text, sizeof(text), stream) != NULL ? text : "nothing\n");
    }
    fclose(stream);
}

static void
change_mode(const char *path)
{
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode))
        return;
    mode_t mode = draw(3) == 0 ? 0444 : draw(2) ? 0640 : 0755;
    print_result("chmod", path, chmod(path, mode));
    const struct timespec times[2] = {{1000, 5}, {2000, 7}};
    print_result("utimensat", path, utimensat(AT_FDCWD, path, times, 0));
    if (stat(path, &found) == 0)
        printf("    %o %lld.%ld\n", found.st_mode, (long long)found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

static void
ask(const char *path)
{
    char resolved[PATH_MAX];
    const char *real = realpath(path, resolved);
    print_result("realpath", path, real != NULL ? 0 : -1);
    if (real != NULL) {
        printf("    ");
        print_text(real);
        printf("\n");
    }
    ssize_t length = readlink(path, resolved, sizeof(resolved) - 1);
    print_result("readlink", path, length < 0 ? -1 : 0);
    if (length >= 0) {
        resolved[length] = '\0';
        printf("    ");
        print_text(resolved);
        printf("\n");
    }
    print_result("access", path, access(path, (int[]){F_OK, R_OK, W_OK, X_OK}[draw(4)]));
}

static void
make_temporary(const char *path)
{
    char template[PATH_MAX];
    snprintf(template, sizeof(template), "%s/tXXXXXX", path);
    int fd = mkstemp(template);
    print_result("mkstemp", path, fd >= 0 ? 0 : -1);
    use_fd(fd, O_RDWR);
    if (fd >= 0)
        print_result("unlink", "temporary", draw(2) ? unlink(template) : rename(template, draw_path()));
    if (fd >= 0 && access(template, F_OK) == 0)
        unlink(template);
}

static void
operate(void)
{
    const char *path = draw_path(), *other = draw_path();
    int flags, fd;
    switch (draw(20)) {
    case 0:
    case 1:
    case 2:
    case 3:
        flags = draw_flags();
        fd = open(path, flags, draw(2) ? 0644 : 0666);
        printf("%o ", flags);
        print_result("open", path, fd >= 0 ? 0 : -1);
        use_fd(fd, flags);
        break;
    case 4:
        use_stream(path);
        break;
    case 5:
        print_result("unlink", path, unlink(path));
        break;
    case 6:
        print_result("rmdir", path, rmdir(path));
        break;
    case 7:
        print_result("remove", path, remove(path));
        break;
    case 8:
        print_result("mkdir", path, mkdir(path, 0755));
        break;
    case 9:
    case 10:
        print_text(other);
        print_result(" rename to it", path, rename(path, other));
        break;
    case 11:
        print_text(other);
        print_result(" rename to new", path, renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_NOREPLACE));
        break;
    case 12:
        print_text(other);
        print_result(" link to it", path,
                     draw(3) ? link(path, other) : linkat(AT_FDCWD, path, AT_FDCWD, other, AT_SYMLINK_FOLLOW));
        break;
    case 13:
        if (other[strlen(other) - 1] == '/')
            break; /* which of two errors a link to a file with a slash is depends on the call */
        print_text(other);
        print_result(" symlink to it", path, symlink(other, path));
        break;
    case 14:
        print_stat(path, draw(2));
        break;
    case 15:
        list(path);
        break;
    case 16:
        print_result("truncate", path, truncate(path, draw(30)));
        break;
    case 17:
        change_mode(path);
        ask(other);
        break;
    case 18:
        stay_in(path);
        break;
    default:
        if (draw(2))
            use_dirfd(path);
        else
            make_temporary(path);
    }
}

static void
print_tree(const char *path)
{
    struct dirent **entries = NULL;
    int count = entries_of(path, &entries);
    for (int i = 0; i < count; ++i) {
        char child[PATH_MAX];
        struct stat found;
        snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
        if (strcmp(entries[i]->d_name, ".") != 0 && strcmp(entries[i]->d_name, "..") != 0) {
            print_stat(child, false);
            if (lstat(child, &found) == 0 && S_ISREG(found.st_mode)) {
                int fd = open(child, O_RDONLY);
                print_content(fd);
                close(fd);
            } else if (S_ISDIR(found.st_mode)) {
                print_tree(child);
            } else {
                ask(child);
            }
        }
        free(entries[i]);
    }
    free(entries);
}

int
main(int argc, char **argv)
{
    if (argc != 4 || chdir(argv[1]) != 0 || getcwd(root, sizeof(root)) == NULL)
        return 2;
    state = strtoull(argv[2], NULL, 10) * 0x9E3779B97F4A7C15ULL + 1;
    umask(022);
    for (long i = 0, count = strtol(argv[3], NULL, 10); i < count; ++i) {
        printf("%ld: ", i);
        operate();
    }
    print_tree(root);
    return 0;
}
