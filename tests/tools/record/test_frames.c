/* test_frames.c - frames of CUDA's libraries are foreign; what hands calls on is neither foreign nor the program's. */
#include "tools/record/frames.h"

#include "tests/test.h"

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
