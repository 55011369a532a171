# TestAddresses.cmake - read by ctest: tests run with device memory where a large GPU has it (SOFTGPU_ADDRESSES, softgpu/docs/softgpu.md),
# unless the caller says otherwise.
if(NOT DEFINED ENV{SOFTGPU_ADDRESSES})
    set(ENV{SOFTGPU_ADDRESSES} real)
endif()
