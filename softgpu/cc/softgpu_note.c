/*
 * softgpu_note.c - the ELF note that softgpu-cc links into every program and shared library: "made for the stand-in".
 *
 * ddprun reads it to know what a program was built for. Section .note.softgpu: owner "softgpu", type 1, and as its
 * description the version of softgpu-cc, a string. Layout of a note: ELF specification (gABI), "Note Section".
 */
#include <stdint.h>

#define OWNER "softgpu"

struct note {
    uint32_t owner_bytes, description_bytes, type;
    char owner[(sizeof(OWNER) + 3) / 4 * 4];
    char description[(sizeof(SOFTGPU_VERSION) + 3) / 4 * 4];
};

/* Static: linkers may be given this object several times. */
static const struct note softgpu_note __attribute__((section(".note.softgpu"), aligned(4), used)) = {
    .owner_bytes = sizeof(OWNER),
    .description_bytes = sizeof(SOFTGPU_VERSION),
    .type = 1,
    .owner = OWNER,
    .description = SOFTGPU_VERSION,
};
