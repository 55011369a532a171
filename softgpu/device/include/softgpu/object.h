/*
 * softgpu/object.h - what makes an object file of softgpu-cc's complete: the way to libsoftgpu.so, the note, the place
 * of the stand-in. Included by softgpu_prelude.h.
 *
 * All of it is weak and hidden: a program or library has it once, whichever linker made it. Nothing here names a symbol
 * of the stand-in's. softgpu-cc defines __SOFTGPU_FOLDER__, the folder of its libraries.
 */
#ifndef SOFTGPU_OBJECT_H
#define SOFTGPU_OBJECT_H
#pragma GCC system_header

#include "softgpu/calls.h"
#include "softgpu/module.h"

#define SOFTGPU_INLINE static inline __attribute__((always_inline, unused))
#define SOFTGPU_OBJECT __attribute__((weak, visibility("hidden")))

namespace softgpu
{
/* As Dl_info of <dlfcn.h>, which programs need not include. */
struct object_place {
    const char *file;
    void *base;
    const char *symbol_name;
    void *symbol;
};
extern "C" __attribute__((weak)) void *softgpu_object_dlsym(void *handle, const char *name) __asm__("dlsym");
extern "C" __attribute__((weak)) int softgpu_object_dladdr(const void *address, object_place *place) __asm__("dladdr");

inline object_place
place_of(const void *address)
{
    object_place place = {nullptr, nullptr, nullptr, nullptr};
    if (address == nullptr || &softgpu_object_dladdr == nullptr || softgpu_object_dladdr(address, &place) == 0)
        place.file = nullptr;
    return place;
}

#ifndef SOFTGPU_MODULE
/* Nothing could run: each kernel needs the stand-in's runtime. */
__attribute__((noreturn, cold)) SOFTGPU_OBJECT void
refuse_runtime()
{
    static const char of_this_object = 0;
    const object_place own = place_of(&of_this_object);
    const object_place runtime =
        place_of(&softgpu_object_dlsym != nullptr ? softgpu_object_dlsym(nullptr, "cudaGetExportTable") : nullptr);
    const char *name = own.file != nullptr ? own.file : "this program";
    if (runtime.file != nullptr && runtime.base != own.base)
        fprintf(
            stderr,
            "softgpu: %s was compiled by softgpu-cc for the CPU, but its CUDA runtime is NVIDIA's, %s; start it with "
            "ddprun or with LD_LIBRARY_PATH=%s, or link it with -L%s -lcudart\n",
            name, runtime.file, __SOFTGPU_FOLDER__, __SOFTGPU_FOLDER__);
    else
        fprintf(
            stderr,
            "softgpu: %s was compiled by softgpu-cc for the CPU, but NVIDIA's libcudart_static.a is linked into it; "
            "link it with -L%s -lcudart\n",
            name, __SOFTGPU_FOLDER__);
    _Exit(127);
}
#endif

__attribute__((noreturn, cold)) SOFTGPU_OBJECT void
refuse_version()
{
    static const char of_this_object = 0;
    const object_place own = place_of(&of_this_object);
    fprintf(stderr,
            "softgpu: %s was compiled by the softgpu-cc of %s, and runs with a stand-in of another version; compile it "
            "again with that stand-in's softgpu-cc\n",
            own.file != nullptr ? own.file : "this program", __SOFTGPU_FOLDER__);
    _Exit(127);
}
} // namespace softgpu

extern "C" {
/* Of libsoftgpu.so; there before the first constructor of the program's. */
SOFTGPU_OBJECT const softgpu_calls *softgpu_object_calls;

/* libsoftgpu's of this OS thread, in all programs and libraries the same. Set while a kernel runs. */
#ifdef SOFTGPU_MODULE /* a process has room for the thread-local variables of some hundred libraries only */
extern __thread softgpu_thread softgpu_module_thread __asm__("softgpu_thread") SOFTGPU_INITIAL_EXEC;
#define softgpu_object_thread (&softgpu_module_thread)
#else
SOFTGPU_OBJECT SOFTGPU_INITIAL_EXEC __thread softgpu_thread *softgpu_object_thread;
#endif

/* Where the libraries are that the program was linked for: read by softgpu/forward, if that is linked in. */
extern SOFTGPU_OBJECT const char softgpu_folder[];
const char softgpu_folder[] = __SOFTGPU_FOLDER__;

/* ELF note of type 2: compiled from CUDA source for the stand-in in this folder. Type 1 is softgpu_note.c's. */
struct softgpu_object_note {
    uint32_t owner_bytes, description_bytes, type;
    char owner[8];
    char description[(sizeof(__SOFTGPU_FOLDER__) + 3) / 4 * 4];
};
extern SOFTGPU_OBJECT const softgpu_object_note softgpu_object_note_2;
__attribute__((section(".note.softgpu"), aligned(4), used))
const softgpu_object_note softgpu_object_note_2 = {8, sizeof(__SOFTGPU_FOLDER__), 2, "softgpu", __SOFTGPU_FOLDER__};

/* Before the program's own constructors; several times if it has several objects. */
__attribute__((weak, visibility("hidden"), constructor(101))) void
softgpu_object_begin()
{
    if (softgpu_object_calls != nullptr)
        return;
#ifdef SOFTGPU_MODULE
    softgpu_object_calls = softgpu_calls_table();
    if (softgpu_object_calls->version != SOFTGPU_CALLS_VERSION)
        softgpu::refuse_version();
#else
    static const cudaUUID_t id = {SOFTGPU_CALLS_ID};
    const void *table = nullptr;
    if (cudaGetExportTable(&table, &id) != cudaSuccess || table == nullptr)
        softgpu::refuse_runtime();
    const softgpu_calls *calls = static_cast<const softgpu_calls *>(table);
    if (calls->version != SOFTGPU_CALLS_VERSION)
        softgpu::refuse_version();
    static softgpu_pointer thread_pointer = {SOFTGPU_TARGET_THREAD, 0, nullptr};
    calls->pointer_add(&thread_pointer, &softgpu_object_thread);
    calls->keep(&softgpu_object_calls);
    softgpu_object_calls = calls;
#endif
}
}

namespace softgpu
{
/* For device code. */
SOFTGPU_INLINE softgpu_thread &
self()
{
    return *softgpu_object_thread;
}

SOFTGPU_INLINE bool
kernel_runs()
{
    return softgpu_object_thread != nullptr && softgpu_object_thread->static_shared != nullptr;
}

/* Of code for both sides: on which it runs. What the compiler evaluates is the host's. */
constexpr inline __attribute__((always_inline)) bool
on_device()
{
    return __builtin_is_constant_evaluated() ? false : kernel_runs();
}
} // namespace softgpu

/* ---- the calls of block.h and stub.h; kernels are rewritten after the preprocessor, and call functions ---- */

#define SOFTGPU_CALL extern "C" inline __attribute__((always_inline))

SOFTGPU_CALL unsigned
softgpu_active_mask(const void *site)
{
    return softgpu_object_calls->active_mask(site);
}

SOFTGPU_CALL __attribute__((noreturn)) void
softgpu_trap(void)
{
    softgpu_object_calls->trap();
    __builtin_unreachable();
}

SOFTGPU_CALL __attribute__((noreturn)) void
softgpu_assert_fail(const char *expression, const char *file, unsigned line, const char *function)
{
    softgpu_object_calls->assert_fail(expression, file, line, function);
    __builtin_unreachable();
}

#undef SOFTGPU_CALL

#define softgpu_run_fibers      softgpu_object_calls->run_fibers
#define softgpu_thread_end      softgpu_object_calls->thread_end
#define softgpu_loop_begin      softgpu_object_calls->loop_begin
#define softgpu_loop_next       softgpu_object_calls->loop_next
#define softgpu_barrier         softgpu_object_calls->barrier
#define softgpu_barrier_vote    softgpu_object_calls->barrier_vote
#define softgpu_meet            softgpu_object_calls->meet
#define softgpu_wait            softgpu_object_calls->wait
#define softgpu_wake            softgpu_object_calls->wake
#define softgpu_launch_here     softgpu_object_calls->launch_here
#define softgpu_shared_of       softgpu_object_calls->shared_of
#define softgpu_yield           softgpu_object_calls->yield
#define softgpu_changed         softgpu_object_calls->changed
#define softgpu_ordered         softgpu_object_calls->ordered
#define softgpu_shared_place    softgpu_object_calls->shared_place
#define softgpu_kernel_name     softgpu_object_calls->kernel_name
#define softgpu_xorwow_jump     softgpu_object_calls->xorwow_jump
#define softgpu_variable_add    softgpu_object_calls->variable_add
#define softgpu_variable_remove softgpu_object_calls->variable_remove
#define softgpu_pointer_add     softgpu_object_calls->pointer_add
#define softgpu_kernel_fatal    softgpu_object_calls->kernel_fatal

#endif
