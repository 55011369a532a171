/*
 * tensor_map.h - what the stand-in's driver writes into a CUtensorMap, and how a kernel gets the address out again:
 * there are no TMA instructions here. C and C++, in host and device code.
 *
 * NVIDIA's layout is opaque: whether the address stands in it as it is, nothing says. So there are two forms, which
 * SOFTGPU_TENSOR_MAPS chooses between: raw, with the address in word 0, and scrambled, with the address in no place.
 */
#ifndef SOFTGPU_TENSOR_MAP_H
#define SOFTGPU_TENSOR_MAP_H

#include <stdint.h>

/* word 1 */
#define SOFTGPU_TENSOR_MAP_RAW       UINT64_C(0x736f6674676d6170)
#define SOFTGPU_TENSOR_MAP_SCRAMBLED UINT64_C(0x736f6674676d7363)

#define SOFTGPU_TENSOR_MAP_KEY  UINT64_C(0x9e3779b97f4a7c15)
#define SOFTGPU_TENSOR_MAP_TURN 23

/* Word 0 of a scrambled map: its inverse is the next one. */
static inline uint64_t
softgpu_tensor_map_scramble(uint64_t address)
{
    uint64_t mixed = address ^ SOFTGPU_TENSOR_MAP_KEY;
    return mixed << SOFTGPU_TENSOR_MAP_TURN | mixed >> (64 - SOFTGPU_TENSOR_MAP_TURN);
}

/* The address that the map `words`, 16 of them, was encoded with; 0: no map of the stand-in's. */
static inline uint64_t
softgpu_tensor_map_address(const uint64_t *words)
{
    if (words[1] == SOFTGPU_TENSOR_MAP_RAW)
        return words[0];
    if (words[1] != SOFTGPU_TENSOR_MAP_SCRAMBLED)
        return 0;
    return (words[0] >> SOFTGPU_TENSOR_MAP_TURN | words[0] << (64 - SOFTGPU_TENSOR_MAP_TURN)) ^ SOFTGPU_TENSOR_MAP_KEY;
}

#endif
