/*
 * softgpu/kernel_image.h - the image of a kernel: its names and the layout of its parameters. Included by launch.h.
 */
#ifndef SOFTGPU_KERNEL_IMAGE_H
#define SOFTGPU_KERNEL_IMAGE_H
#pragma GCC system_header

#include "softgpu/object.h"

#ifdef SOFTGPU_MODULE
#include <cxxabi.h>
#endif

namespace softgpu
{

/* The kernel's name for the linker, from that of the struct in its body: "_Z3sgdPf" from "Z3sgdPfE14softgpu_kernel".
 * Null for extern "C", whose name is a plain word, and without RTTI (`inner` is null). */
inline const char *
linked_name(const char *inner)
{
    const size_t length = inner != nullptr ? __builtin_strlen(inner) : 0, behind = sizeof("E14softgpu_kernel") - 1;
    if (length <= behind + 1 || inner[0] != 'Z' || __builtin_strcmp(inner + length - behind, "E14softgpu_kernel") != 0)
        return nullptr;
    size_t word = 0, at = 1; /* "3sgd" alone */
    while (inner[at] >= '0' && inner[at] <= '9')
        word = word * 10 + static_cast<size_t>(inner[at++] - '0');
    if (at > 1 && at + word == length - behind)
        return nullptr;
    char *name = static_cast<char *>(__builtin_malloc(length - behind + 2));
    if (name == nullptr)
        return nullptr;
    name[0] = '_';
    __builtin_memcpy(name + 1, inner, length - behind);
    name[length - behind + 1] = '\0';
    return name;
}

#ifdef SOFTGPU_MODULE
/* The same for messages: "void scale<float>(float *, int)". */
inline const char *
readable_name(const char *inner)
{
    const char *linked = linked_name(inner);
    const char *readable = linked != nullptr ? abi::__cxa_demangle(linked, nullptr, nullptr, nullptr) : nullptr;
    if (readable != nullptr)
        return readable;
    /* extern "C": "Z3sgdE14softgpu_kernel" or, with a parameter list, "Z3sgdPfE14softgpu_kernel". */
    size_t length = 0;
    const char *word = inner + 1;
    for (; *word >= '0' && *word <= '9'; ++word)
        length = length * 10 + static_cast<size_t>(*word - '0');
    return __builtin_strndup(word, length);
}
#endif

/* The size and alignment of a parameter. */
struct extent {
    size_t bytes, alignment;
};

/* `image` with its names and its parameters, laid out as in the parameter block of a GPU. Before, its names are those
 * of the stub and of the struct in its body. */
static __attribute__((noinline, unused)) softgpu_image
finish_image(softgpu_image image, softgpu_param *params, const extent *extents, const char **name) noexcept
{
    size_t offset = 0;
    for (unsigned i = 0; i < image.param_count; ++i) {
        offset = (offset + extents[i].alignment - 1) & ~(extents[i].alignment - 1);
        params[i] = {offset, extents[i].bytes};
        offset += extents[i].bytes;
    }
    image.name = *name = softgpu_kernel_name(image.name);
    image.linked_name = linked_name(image.linked_name);
    return image;
}

} // namespace softgpu

#endif
