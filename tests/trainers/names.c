/*
 * names.c - functions of a program, or of a library that it links, whose names those of other libraries have, too: what
 * ddprun needs is looked for in the program first. Each ends the program when it is called.
 *
 * The names are what the engine has used of json-c, PMIx and xxHash, what their libraries use of libevent, hwloc and
 * munge, and, with -DUNWINDER, what the engine has used of libunwind, and of liblzma by it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
end_program(const char *name)
{
    static const char text[] = ": the program's function was called\n";
    if (write(STDERR_FILENO, name, strlen(name)) > 0 && write(STDERR_FILENO, text, strlen(text)) > 0)
        abort();
    abort();
}

#define FUNCTION(name)                                     \
    void name(void);                                       \
    __attribute__((visibility("default"))) void name(void) \
    {                                                      \
        end_program(#name);                                \
    }
#define NAME(name) FUNCTION(name)

/* json-c */
NAME(json_object_array_add)
NAME(json_object_array_get_idx)
NAME(json_object_array_length)
NAME(json_object_get)
NAME(json_object_get_int)
NAME(json_object_get_int64)
NAME(json_object_get_string)
NAME(json_object_is_type)
NAME(json_object_new_array)
NAME(json_object_new_boolean)
NAME(json_object_new_double)
NAME(json_object_new_double_s)
NAME(json_object_new_int)
NAME(json_object_new_int64)
NAME(json_object_new_object)
NAME(json_object_new_string)
NAME(json_object_new_uint64)
NAME(json_object_object_add)
NAME(json_object_object_get_ex)
NAME(json_object_put)
NAME(json_object_to_json_string)
NAME(json_object_to_json_string_ext)
NAME(json_tokener_parse)

/* PMIx, and what it uses */
NAME(PMIx_Abort)
NAME(PMIx_Commit)
NAME(PMIx_Error_string)
NAME(PMIx_Fence)
NAME(PMIx_Fence_nb)
NAME(PMIx_Finalize)
NAME(PMIx_Get)
NAME(PMIx_Info_load)
NAME(PMIx_Init)
NAME(PMIx_Put)
NAME(PMIx_Register_event_handler)
NAME(PMIx_Value_destruct)
NAME(event_active)
NAME(event_add)
NAME(event_assign)
NAME(event_base_free)
NAME(event_base_loop)
NAME(event_base_loopexit)
NAME(event_base_new)
NAME(event_del)
NAME(event_new)
NAME(evthread_use_pthreads)
NAME(hwloc_bitmap_alloc)
NAME(hwloc_topology_init)
NAME(hwloc_topology_load)
NAME(munge_decode)
NAME(munge_encode)
NAME(munge_strerror)

/* xxHash */
NAME(XXH64)
NAME(XXH3_64bits)
NAME(XXH3_64bits_withSeed)
NAME(XXH3_64bits_reset)
NAME(XXH3_64bits_update)
NAME(XXH3_64bits_digest)
NAME(XXH3_createState)
NAME(XXH3_freeState)

#ifdef UNWINDER
#ifdef __aarch64__
#define UNWIND(name)       _Uaarch64_##name
#define UNWIND_LOCAL(name) _ULaarch64_##name
#else
#define UNWIND(name)       _Ux86_64_##name
#define UNWIND_LOCAL(name) _ULx86_64_##name
#endif
NAME(_U_dyn_info_list_addr)
NAME(UNWIND_LOCAL(dwarf_search_unwind_table))
NAME(UNWIND_LOCAL(get_proc_info))
NAME(UNWIND_LOCAL(get_proc_info_by_ip))
NAME(UNWIND_LOCAL(get_proc_name))
NAME(UNWIND_LOCAL(get_reg))
NAME(UNWIND_LOCAL(init_local))
NAME(UNWIND_LOCAL(is_signal_frame))
NAME(UNWIND_LOCAL(resume))
NAME(UNWIND_LOCAL(set_reg))
NAME(UNWIND_LOCAL(step))
NAME(UNWIND(flush_cache))
NAME(UNWIND(get_elf_image))
NAME(UNWIND(get_exe_image_path))
NAME(UNWIND(getcontext))
NAME(UNWIND(is_fpreg))
NAME(UNWIND(setcontext))
NAME(lzma_index_buffer_decode)
NAME(lzma_index_end)
NAME(lzma_index_size)
NAME(lzma_index_uncompressed_size)
NAME(lzma_stream_buffer_decode)
NAME(lzma_stream_footer_decode)
#endif
