/* test_frames.c - frames of CUDA's libraries are foreign; what hands calls on is neither foreign nor the program's. */
#include "tools/record/frames.h"
#include "tools/record/inside.h"

#include "tests/lib/test.h"

TEST(libraries_of_cuda_are_foreign)
{
    static const char *const libraries[] = {
        "libcublas.so.12", "libcublasLt.so.12", "libcudnn.so.9",  "libcudnn_ops.so.9", "libcufft.so.11",
        "libcurand.so.10", "libnccl.so.2",      "libnvrtc.so.12", "libcusparse.so.12", "libmpi.so.40"};
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); ++i) {
        char path[64];
        snprintf(path, sizeof(path), "/usr/lib/%s", libraries[i]);
        ck_assert_msg(frame_owner_of(path) == FRAME_FOREIGN, "%s", path);
    }
}

TEST(what_hands_calls_on_is_a_gate)
{
    static const char *const gates[] = {
        "/opt/cuda/libcudart.so.12",     "libcudart-d0da41ae.so.11.0", "libcuda.so.1",
        "/usr/lib/libsoftgpu_cudart.so", "libddprun-shim.so",          "ld-linux-x86-64.so.2"};
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); ++i)
        ck_assert_msg(frame_owner_of(gates[i]) == FRAME_GATE, "%s", gates[i]);
}

TEST(others_pass_on_or_are_the_programs)
{
    ck_assert_int_eq(frame_owner_of("/lib/libc.so.6"), FRAME_PASSES_ON);
    ck_assert_int_eq(frame_owner_of("/lib/libstdc++.so.6"), FRAME_PASSES_ON);
    ck_assert_int_eq(frame_owner_of("/usr/lib/ddprun/libddprun-files.so"), FRAME_PASSES_ON);
    ck_assert_int_eq(frame_owner_of("/opt/libcudart/train"), FRAME_PROGRAM);
    ck_assert_int_eq(frame_owner_of("./libnet.so"), FRAME_PROGRAM);
    ck_assert_int_eq(frame_owner_of("/usr/lib/libpython3.11.so"), FRAME_PROGRAM);
}

TEST(a_cudart_inside_is_one_piece_without_the_programs_functions)
{
    static const char names[] = "\0libcudart_static_1\0main\0cudaCheck\0cudaMalloc\0atexit";
    enum { INTERNAL = 1, MAIN = 20, CHECK = 25, PUBLIC = 35, AFTER = 46, FUNCTION = STT_FUNC };
    static const Elf64_Sym symbols[] = {
        {.st_name = PUBLIC, .st_info = FUNCTION, .st_shndx = 1, .st_value = 0x60, .st_size = 16},
        {.st_name = INTERNAL, .st_info = FUNCTION, .st_shndx = 1, .st_value = 0x10, .st_size = 16}, /* seldom run */
        {.st_name = INTERNAL, .st_info = FUNCTION, .st_shndx = 1, .st_value = 0x70, .st_size = 16},
        {.st_name = AFTER, .st_info = FUNCTION, .st_shndx = 1, .st_value = 0x80, .st_size = 16},
        {.st_name = INTERNAL, .st_info = FUNCTION, .st_shndx = 1, .st_value = 0x50, .st_size = 16},
        {.st_name = CHECK, .st_info = FUNCTION, .st_shndx = 1, .st_value = 0x40, .st_size = 16},
        {.st_name = MAIN, .st_info = FUNCTION, .st_shndx = 1, .st_value = 0x20, .st_size = 16}};
    struct code_range range = cudart_among(symbols, sizeof(symbols) / sizeof(symbols[0]), names, sizeof(names));
    ck_assert_msg(range.from == 0x50 && range.to == 0x80, "%#zx to %#zx", (size_t)range.from, (size_t)range.to);
    ck_assert(cudart_among(&symbols[5], 2, names, sizeof(names)).to == 0);
}
