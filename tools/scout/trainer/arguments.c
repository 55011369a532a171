/*
 * arguments.c - the memory that a launch gets: what its call names, and what pointers in that memory lead to. repeat.c
 * calls it before the first run of a launch.
 *
 * Threads: with scout_lock() held.
 */
#include "tools/scout/trainer/scout.h"

enum { POINTERS_LOOKED = 512 }; /* words of an argument's memory that may be pointers */

/* A launch whose memory is being taken. */
struct taking {
    struct noted *launch;
    struct images *images;
    bool is_whole; /* whole allocations are looked at; else what pointers reach, up to the next known offset */
};

/* Adds an image of an allocation of which the launch reaches at least `extent` bytes from byte `offset` on. False:
 * there is no room. */
static bool
add_image(const struct taking *taking, struct allocation *allocation, uint64_t offset, uint64_t extent)
{
    if (!images_add(taking->images, allocation))
        return false;
    struct image *image = images_find(taking->images, allocation->number);
    if (taking->is_whole) {
        images_look(image, 0, allocation->bytes);
        return true;
    }
    uint64_t rest = allocation->bytes - offset, next_offset = allocations_next_offset(allocation, offset);
    uint64_t reached = offset + (extent < rest ? extent : rest);
    images_look(image, offset, reached > next_offset ? reached : next_offset);
    return true;
}

/* Adds images of all allocations that the call names; `extents` as in arguments_take_images(). False: there is no
 * room. */
static bool
add_named(const struct taking *taking, const uint64_t *extents)
{
    const struct noted *launch = taking->launch;
    for (size_t i = 0; i < launch->named_count; ++i) {
        const struct scout_argument *argument = &launch->arguments[i];
        struct allocation *allocation = allocations_numbered(argument->alloc);
        uint64_t extent = extents != NULL ? extents[i] : 0;
        if (allocation != NULL && !add_image(taking, allocation, argument->offset, extent))
            return false;
    }
    return true;
}

/* Whether the word, at byte `byte` of an argument's memory, is an address of known memory of the device: that becomes
 * an argument of the launch, too, of the type `type`. *fits becomes false where there is no room for its image. */
static bool
follow_pointer(const struct taking *taking, uint64_t word, uint32_t byte, uint32_t type, bool *fits)
{
    struct noted *launch = taking->launch;
    struct allocation *target = allocations_known(word);
    if (target == NULL || target->memory == SCOUT_PINNED)
        return false;
    uint64_t offset = word - target->address;
    if (ANY(argument, launch->arguments, launch->op.argument_count,
            argument->alloc == target->number && argument->offset == offset))
        return true;
    if (launch->op.argument_count == ARGUMENTS_AT_MOST) {
        launch->too_many = true;
        return true;
    }
    allocations_note_offset(target, offset);
    launch->arguments[launch->op.argument_count++] =
        (struct scout_argument){.slot = UINT16_MAX,
                                .byte = byte,
                                .alloc = target->number,
                                .offset = offset,
                                .end = allocations_next_offset(target, offset),
                                .type = type};
    *fits = add_image(taking, target, offset, 0);
    return true;
}

/* Follows pointers in the memory of one argument. False: there is no room. */
static bool
follow_table(const struct taking *taking, const struct scout_argument *argument)
{
    bool fits = true;
    uint64_t looked = argument->offset + POINTERS_LOOKED * sizeof(uint64_t);
    uint64_t end = argument->end < looked ? argument->end : looked;
    uint64_t begin = (argument->offset + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    struct image *image = images_find(taking->images, argument->alloc);
    for (uint64_t byte = begin; byte + sizeof(uint64_t) <= end && fits; byte += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)image->before + byte, sizeof(word));
        if (follow_pointer(taking, word, (uint32_t)byte, argument->table, &fits)) {
            image = images_find(taking->images, argument->alloc); /* may have moved */
            image->is_table = true;
        }
    }
    return fits;
}

bool
arguments_take_images(struct noted *launch, const uint64_t *extents, struct images *images)
{
    const struct taking taking = {.launch = launch, .images = images, .is_whole = extents == NULL};
    bool fits = add_named(&taking, extents);
    for (uint32_t i = 0; i < launch->op.argument_count && fits; ++i) { /* more of them come as pointers are followed */
        const struct scout_argument argument = launch->arguments[i];
        fits = follow_table(&taking, &argument);
    }
    return fits;
}
