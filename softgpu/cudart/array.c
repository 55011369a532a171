/*
 * array.c - channel descriptors: plain structs that headers fill in at many places, whether or not textures are used.
 */
#include "runtime.h"

struct cudaChannelFormatDesc
cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}
