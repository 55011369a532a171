/*
 * softgpu/module_kernel.h - what softgpu-cc and libnvrtc write into a module, which a program loads while it runs: its
 * kernels are listed, its stubs are never called. Included by launch.h where SOFTGPU_MODULE is defined.
 */
#ifndef SOFTGPU_MODULE_KERNEL_H
#define SOFTGPU_MODULE_KERNEL_H
#pragma GCC system_header

#include "softgpu/kernel_image.h"
#include "softgpu/run_kernel.h"
#include "softgpu/shared.h"

#include <typeinfo>

extern "C" {
/* SOFTGPU_MODULE_KERNELS. */
__attribute__((weak, visibility("default"))) const softgpu_module_kernel *softgpu_module_kernels;
}

namespace softgpu
{

/* A kernel in the module's list, from the time on when the module is loaded. Kernel: the struct in the kernel's body.
 */
template <int Mode, class Kernel, class Body, class... P> struct module_kernel {
    softgpu_module_kernel entry;

    module_kernel()
    {
        entry.image = image;
        entry.next = softgpu_module_kernels;
        softgpu_module_kernels = &entry;
    }

    static const softgpu_image *image()
    {
        typedef kernel<Mode, Body, P...> code;
        static const extent extents[] = {
            {sizeof(typename parameter<P>::stored), alignof(typename parameter<P>::stored)}..., {0, 1}};
        static softgpu_param params[sizeof...(P) + 1];
        const char *const inner = typeid(Kernel).name();
        static const softgpu_image made = finish_image(
            {SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, 0, readable_name(inner), code::run, sizeof...(P), params,
             __atomic_load_n(&frame<Kernel>::used, __ATOMIC_RELAXED), Kernel::max_threads, inner, nullptr},
            params, extents, &code::name);
        return &made;
    }

    static module_kernel listed;
};

template <int Mode, class Kernel, class Body, class... P>
module_kernel<Mode, Kernel, Body, P...> module_kernel<Mode, Kernel, Body, P...>::listed;

/* The body of every stub of a module. It is never called: that it names the entry makes the entry part of the module.
 */
template <int Mode, class Kernel, class Body, class... P, class... Where>
static inline __attribute__((always_inline)) void
stub(const Body &, const char *, unsigned, Where...)
{
    __asm__ volatile("" : : "r"(&module_kernel<Mode, Kernel, Body, P...>::listed));
}

/* A variable's name for the linker: of its own name, and of that of a pointer to a type in its scope,
 * "P15softgpu_scope_0" or "PN2ns15softgpu_scope_0E". */
inline const char *
variable_name(const char *pointer, const char *name, bool is_static)
{
    const char *scope = pointer + 2; /* after "PN" */
    const size_t scope_length = __builtin_strlen(pointer);
    const char *const local = is_static ? "L" : "";
    size_t end = 0; /* of the scope: where the number before "softgpu_scope_" begins */
    if (pointer[1] != 'N' && !is_static)
        return name;
    if (pointer[1] == 'N')
        end = static_cast<size_t>(__builtin_strstr(scope, "softgpu_scope_") - scope) - 2;
    const size_t room = scope_length + __builtin_strlen(name) + 32;
    char *made = static_cast<char *>(__builtin_malloc(room));
    if (made == nullptr)
        return name;
    if (pointer[1] == 'N')
        __builtin_snprintf(made, room, "_ZN%.*s%s%zu%sE", static_cast<int>(end), scope, local, __builtin_strlen(name),
                           name);
    else
        __builtin_snprintf(made, room, "_Z%s%zu%s", local, __builtin_strlen(name), name);
    return made;
}

/* What a name expression of nvrtcAddNameExpression() denotes: a kernel, or the address of a variable. */
template <class... P>
constexpr auto
named(void (*kernel)(P...)) -> void (*)(P...)
{
    return kernel;
}
template <class T>
constexpr T *
named(T *variable)
{
    return variable;
}

} // namespace softgpu

#endif
