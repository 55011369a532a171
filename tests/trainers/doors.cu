/*
 * doors.cu - doors DOOR PROGRAM [ARGUMENT]: starts the program by that function, without LD_PRELOAD in its environment;
 * by `kept` with it. Exit code: the program's, or 9 where it cannot be started. Without arguments: ends at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
    char *none[] = {NULL}, **all = environ, *path = argv[2], **words = argv + 2;
    pid_t child = 0;
    if (argc < 3)
        return 0;
#define DOOR(name, call) (strcmp(argv[1], #name) == 0 && (errno = 0, call, true))
    /* What is given to the program counts, not what this one has; then the other way round. */
    bool known = DOOR(execve, execve(path, words, none)) || DOOR(execle, execle(path, path, words[1], NULL, none)) ||
                 DOOR(execvpe, execvpe(path, words, none)) || DOOR(fexecve, fexecve(open(path, O_PATH), words, none)) ||
                 DOOR(execveat, execveat(open("/", O_PATH), path + 1, words, none, 0)) ||
                 DOOR(execveat_fd, execveat(open(path, O_RDONLY), "", words, none, AT_EMPTY_PATH)) ||
                 DOOR(posix_spawn, errno = posix_spawn(&child, path, NULL, NULL, words, none)) ||
                 DOOR(posix_spawnp, errno = posix_spawnp(&child, path, NULL, NULL, words, none)) ||
                 DOOR(kept, (environ = none, execve(path, words, all))) || (unsetenv("LD_PRELOAD"), false) ||
                 DOOR(execv, execv(path, words)) || DOOR(execvp, execvp(path, words)) ||
                 DOOR(execl, execl(path, path, words[1], NULL)) || DOOR(execlp, execlp(path, path, words[1], NULL)) ||
                 DOOR(vfork, (child = vfork()) == 0 && (execv(path, words), _exit(9), false));
    int status = 0;
    if (child > 0 && errno == 0)
        waitpid(child, &status, 0);
    else
        perror(known ? argv[1] : "no such door");
    return child > 0 && errno == 0 ? WEXITSTATUS(status) : 9;
}
