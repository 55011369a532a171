/*
 * array.c - channel descriptors, plain structs that headers fill in at many places, and textures of linear memory.
 */
#include "runtime.h"

#include "softgpu/image.h"

#include <stdint.h>
#include <stdlib.h>

struct cudaChannelFormatDesc
cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}

cudaError_t
cudaCreateTextureObject(cudaTextureObject_t *texture_p, const struct cudaResourceDesc *resource,
                        const struct cudaTextureDesc *texture, const struct cudaResourceViewDesc *view)
{
    TRY(runtime_enter());
    REQUIRE(texture_p != NULL && resource != NULL && texture != NULL && view == NULL);
    if (resource->resType != cudaResourceTypeLinear || texture->readMode != cudaReadModeElementType) {
        say("cudaCreateTextureObject: a texture is linear memory, read as its elements (cudaReadModeElementType); "
            "others are not supported");
        return finish(cudaErrorNotSupported);
    }
    struct softgpu_texture *made = malloc(sizeof(*made));
    REQUIRE_ELSE(made != NULL, cudaErrorMemoryAllocation);
    *made = (struct softgpu_texture){resource->res.linear.devPtr, resource->res.linear.sizeInBytes};
    *texture_p = (cudaTextureObject_t)(uintptr_t)made;
    return cudaSuccess;
}

cudaError_t
cudaDestroyTextureObject(cudaTextureObject_t texture)
{
    free((void *)(uintptr_t)texture);
    return cudaSuccess;
}
