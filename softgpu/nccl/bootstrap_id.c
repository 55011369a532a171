/*
 * bootstrap_id.c - unique ids: what they hold, and what makes two processes be on the same host.
 */
#include "nccl/bootstrap_wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct id_content) <= NCCL_UNIQUE_ID_BYTES, "what an id holds fits into it");
_Static_assert(sizeof((struct id_content *)0)->secret == SECRET_BYTES &&
                   sizeof((struct id_content *)0)->host == HOST_BYTES,
               "the id's parts have the sizes of their uses");

/* 32 bytes that are the same for the same two texts, and for no others (four times FNV-1a). */
static void
fold_texts(const char *first, const char *second, unsigned char out[SECRET_BYTES])
{
    for (unsigned lane = 0; lane < SECRET_BYTES / sizeof(uint64_t); ++lane) {
        uint64_t hash = 0xcbf29ce484222325u + lane;
        for (const char *c = first; *c != '\0'; ++c)
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
        hash *= 0x100000001b3u; /* their border */
        for (const char *c = second; *c != '\0'; ++c)
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
        memcpy(out + lane * sizeof(hash), &hash, sizeof(hash));
    }
}

/* ---- hosts ---- */

/* The first line of a file, or nothing. */
static void
read_line(const char *path, char *line, size_t bytes)
{
    line[0] = '\0';
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (!fgets(line, (int)bytes, file))
        line[0] = '\0';
    fclose(file);
}

void
bootstrap_host(unsigned char host[HOST_BYTES])
{
    unsigned char folded[SECRET_BYTES];
    char text[1024], name[256] = "", boot[64];
    const char *given = getenv("NCCL_HOSTID");
    struct stat network = {0};
    gethostname(name, sizeof(name) - 1);
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
    stat("/proc/self/ns/net", &network);
    int length = given && *given ? snprintf(text, sizeof(text), "given %s", given)
                                 : snprintf(text, sizeof(text), "host %s %s", name, boot);
    if (length > (int)sizeof(text) - 80)
        length = (int)sizeof(text) - 80;
    snprintf(text + length, sizeof(text) - (size_t)length, " net %llu.%llu user %u", (unsigned long long)network.st_dev,
             (unsigned long long)network.st_ino, (unsigned)geteuid());
    fold_texts(text, "", folded);
    memcpy(host, folded, HOST_BYTES);
}

/* ---- ids ---- */

ncclResult_t
bootstrap_create_id(ncclUniqueId *id, struct bootstrap_error *error)
{
    struct id_content content = {.magic = ID_MAGIC};
    if (!auth_random(content.name, sizeof(content.name)) || !auth_random(content.secret, sizeof(content.secret)))
        return bootstrap_fail(error, ncclSystemError, "no random numbers for a unique id");
    bootstrap_host(content.host);
    if (!net_address_choose(&content.root, error->text, sizeof(error->text)))
        return ncclInvalidUsage;
    ncclResult_t result = bootstrap_root_start(&content, error);
    if (result == ncclSuccess) {
        memset(id, 0, sizeof(*id));
        memcpy(id, &content, sizeof(content));
    }
    return result;
}

ncclResult_t
bootstrap_get_id(ncclUniqueId *id, struct bootstrap_error *error)
{
    const char *address = getenv("NCCL_COMM_ID"), *secret = getenv("SOFTGPU_NCCL_SECRET");
    if (!address || !*address)
        return bootstrap_create_id(id, error);
    struct id_content content = {.magic = ID_MAGIC};
    if (!net_address_parse(address, &content.root)) {
        snprintf(error->text, sizeof(error->text),
                 "NCCL_COMM_ID=%s: give ADDRESS:PORT or [IPV6]:PORT, of the host of rank 0", address);
        return ncclInvalidArgument;
    }
    if (!net_address_is_loopback(&content.root) && (!secret || !*secret)) {
        snprintf(error->text, sizeof(error->text),
                 "NCCL_COMM_ID=%s: any process that reaches that port could join: set SOFTGPU_NCCL_SECRET to the same "
                 "random text for all ranks, or hand round the id that ncclGetUniqueId makes without NCCL_COMM_ID",
                 address);
        return ncclInvalidUsage;
    }
    fold_texts(secret ? secret : "", address, content.secret); /* every process makes the same */
    memset(id, 0, sizeof(*id));
    memcpy(id, &content, sizeof(content));
    return ncclSuccess;
}
