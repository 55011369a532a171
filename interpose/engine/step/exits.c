/*
 * exits.c - by which operations may a result of the device leave it? For --commit trust (send/trust.c).
 *
 * A result leaves where the host, or another process, may read it. Waits and queries, after which a program reads
 * memory that it shares with the device, are hooks of their own (struct engine). In doubt an operation counts: that
 * costs a wait.
 */
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/step/step.h"

#include <string.h>

/* Whether the name begins so. */
static bool
begins(const char *name, const char *begin)
{
    return strncmp(name, begin, strlen(begin)) == 0;
}

/* Calls of the driver that write memory of the device, and do not wait. Others may write the host's: the direction of
 * cuMemcpy is in its operands, and cuStreamWriteValue32 tells the host that something is done. */
static bool
stays_on_device(const char *name)
{
    static const char *const copies[] = {"cuMemcpyHtoD", "cuMemcpyDtoD", "cuMemcpyPeer", "cuMemcpyAtoD"};
    if (begins(name, "cuMemset"))
        return true;
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); ++i) {
        if (begins(name, copies[i]))
            return strstr(name, "Async") != NULL;
    }
    return false;
}

/* Whether it may write memory that the host reaches. */
static bool
writes_host(const struct operation *operation)
{
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        if (operand->access != ACCESS_READ && host_accessible_has(operand->address, 1))
            return true;
    }
    return false;
}

bool
exits_by(const struct operation *operation, const struct hits *hits, bool is_opaque)
{
    if (operation->function != NULL)
        return hits->on_host || is_opaque;
    if (hits->is_library)
        return operation->answers || is_opaque || writes_host(operation);
    return !stays_on_device(operation->name) || writes_host(operation);
}
