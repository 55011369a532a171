/*
 * call_site.c - which call of the program's has led here? Its frames on the stack: all of them, for a program may copy
 * everything through functions of functions. The innermost ones are named (check.h).
 *
 * Any thread. The lock is held across no call of the driver.
 */
#include "tools/check/trainer/check.h"

#include "tools/record/frames.h"
#include "tools/record/inside.h"

#include <xxhash.h>

#include <execinfo.h>
#include <link.h>
#include <unistd.h>

enum { FRAMES_SEEN = 24, FRAMES_KEPT = 4, FRAMES_REMEMBERED = 256 };

/* An address behind a call, and the object that it lies in. dladdr() goes through symbols, so answers are kept. */
static struct frame {
    const void *address;
    const char *object; /* path; NULL: it is not the program's (tools/record/frames.h) */
    uint64_t offset;
} remembered[FRAMES_REMEMBERED]; /* guarded by frames_lock */

static pthread_mutex_t frames_lock = PTHREAD_MUTEX_INITIALIZER;
static char own_path[4096]; /* the same; the program's */

/* Asked for once. Empty if the system does not say it. */
static const char *
find_own_path(void)
{
    if (own_path[0] == '\0') {
        ssize_t length = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
        own_path[length > 0 ? length : 0] = '\0';
    }
    return own_path;
}

/* The frame of a return address: the program's object and the offset in it; .object NULL: it is of CUDA, ddprun, or not
 * known. */
static struct frame
look_up(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    struct frame frame = {.address = address};
    if (dladdr1((const char *)address - 1, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return frame;
    frame.offset = (uintptr_t)address - map->l_addr;
    bool is_program = map->l_name[0] == '\0';
    if (!is_program && frame_owner_of(map->l_name) != FRAME_PROGRAM)
        return frame;
    if (cudart_holds(map, (const char *)address - 1))
        return frame;
    frame.object = is_program ? find_own_path() : map->l_name;
    return frame;
}

/* The frame of a return address as look_up() finds it, remembered by address. Any thread. */
static struct frame
find_frame(const void *address)
{
    struct frame *kept = &remembered[((uintptr_t)address >> 2) % FRAMES_REMEMBERED];
    HOLD(&frames_lock);
    if (kept->address != address)
        *kept = look_up(address);
    return *kept;
}

/* Appends the frame's line to the `used` bytes of text[bytes], as a whole or not at all. Returns how many there are. */
static size_t
add_line(const struct frame *frame, char *text, size_t used, size_t bytes)
{
    int wanted = snprintf(text + used, bytes - used, "%s %llx\n", frame->object, (unsigned long long)frame->offset);
    if (wanted < 0 || (size_t)wanted >= bytes - used) {
        text[used] = '\0';
        return used;
    }
    return used + (size_t)wanted;
}

uint64_t
call_site_find(char *text, size_t bytes)
{
    void *stack[FRAMES_SEEN];
    int depth = backtrace(stack, FRAMES_SEEN), kept = 0;
    uint64_t site = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < depth; ++i) {
        struct frame frame = find_frame(stack[i]);
        if (frame.object == NULL)
            continue;
        const char *name = file_name_of(frame.object);
        site = XXH3_64bits_withSeed(name, strlen(name), site);
        site = XXH3_64bits_withSeed(&frame.offset, sizeof(frame.offset), site);
        if (kept < FRAMES_KEPT)
            used = add_line(&frame, text, used, bytes);
        ++kept;
    }
    return site;
}
