/*
 * repair_nccl.c - a libnccl in which something happens to rank 1 amid a repair: between the all-reduce by which ranks
 * tell which buckets are stale and the end of the call that sends the first of these once more. For repairs.sh, whose
 * trainer says by REPAIR_NCCL_STEP in which step. REPAIR_NCCL_FAULT is what happens, and when, as "kill before": before
 * the bucket is enqueued, or "after". All other functions are found in the library that this one is linked with.
 *
 *   kill   the process is killed
 *   stop   it is stopped, by SIGSTOP
 *   sleep  the calling thread sleeps for half a second
 *   cut    its network is gone: each of its internet sockets is shut down
 *   meet   it makes the file of REPAIR_NCCL_FILE, and waits until that is removed
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS = 1024 };

/* The last all-reduce was that of the ranks' words about their buckets. */
static bool words_were_added;

static void
cut(void)
{
    for (int fd = 0; fd < DESCRIPTORS; ++fd) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof(address);
        if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
            continue;
        if (address.ss_family == AF_INET || address.ss_family == AF_INET6)
            (void)shutdown(fd, SHUT_RDWR);
    }
}

static void
meet(void)
{
    const char *path = getenv("REPAIR_NCCL_FILE");
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    while (access(path, F_OK) == 0)
        usleep(10000);
}

static void
happen(const char *fault)
{
    if (strncmp(fault, "kill", 4) == 0)
        (void)kill(getpid(), SIGKILL);
    else if (strncmp(fault, "stop", 4) == 0)
        (void)kill(getpid(), SIGSTOP);
    else if (strncmp(fault, "sleep", 5) == 0)
        usleep(500000);
    else if (strncmp(fault, "cut", 3) == 0)
        cut();
    else if (strncmp(fault, "meet", 4) == 0)
        meet();
}

static void
happen_if(const char *when)
{
    const char *fault = getenv("REPAIR_NCCL_FAULT"), *rank = getenv("RANK");
    if (fault != NULL && rank != NULL && strcmp(rank, "1") == 0 && strstr(fault, when) != NULL)
        happen(fault);
}

__attribute__((visibility("default"))) ncclResult_t
ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
              cudaStream_t stream)
{
    __typeof__(&ncclAllReduce) next;
    void *found = dlsym(RTLD_NEXT, "ncclAllReduce");
    bool is_repair = words_were_added && getenv("REPAIR_NCCL_STEP") != NULL;
    memcpy(&next, &found, sizeof(next));
    words_were_added = type == ncclUint32;
    if (is_repair)
        happen_if("before");
    ncclResult_t result = next(from, to, count, type, op, comm, stream);
    if (is_repair)
        happen_if("after");
    return result;
}
