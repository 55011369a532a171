/*
 * frames.h - whose call is it? Told by the objects in which the frames of its stack lie: for the libraries of check, of
 * scout and of the sandbox, which are loaded into the trainer. Pure: only names are compared.
 */
#ifndef DDPRUN_TOOLS_RECORD_FRAMES_H
#define DDPRUN_TOOLS_RECORD_FRAMES_H

#include "base/printable.h"

enum frame_owner {
    FRAME_PROGRAM,   /* the program, or a library of its own */
    FRAME_FOREIGN,   /* a library that calls for itself, as cuBLAS and NCCL do */
    FRAME_GATE,      /* what calls go through: ddprun, CUDA's driver and runtime, the stand-in, the loader */
    FRAME_PASSES_ON, /* what it calls, it calls for its caller */
};

/* Of a frame in this object. What no row names is the program's. */
static inline enum frame_owner
frame_owner_of(const char *path)
{
    static const struct {
        enum frame_owner owner;
        const char *begins; /* of the file's name */
    } rows[] = {
        {FRAME_PASSES_ON, "libddprun-files libstdc++ libc++ libc.so libasan"},
        {FRAME_GATE, "libddprun libcuda.so libcudart libsoftgpu ld-linux"},
        {FRAME_FOREIGN, "libcu libnccl libnv libmpi libopen- libpmix libuc libgomp libgcc_s libm.so libpthread"}};
    for (size_t i = 0, length; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        for (const char *begin = rows[i].begins; *begin != '\0'; begin += length + strspn(begin + length, " ")) {
            length = strcspn(begin, " ");
            if (strncmp(file_name_of(path), begin, length) == 0)
                return rows[i].owner;
        }
    }
    return FRAME_PROGRAM;
}

#endif
