# Install.cmake - what `cmake --install` puts where, and the Debian packages that CPack makes of it. Included last.
#
# Three components, three packages: `ddprun` (launcher, shim, engine, header), `ddprun-pmix` (the one library that needs PMIx,
# for jobs of srun and mpirun) and `ddprun-softgpu` (the stand-in: softgpu-cc and its libraries, which have the names of CUDA's
# and therefore lie in a folder of their own that no loader searches). They find their parts from their own place, so a prefix
# may be moved as a whole.
#
#   bin/ddprun, bin/softgpu-cc          lib/ddprun/        shim and engines
#   include/ddprun.h, ddprun_torch*.h, ddprun_lines.h   lib/softgpu/       the stand-in, with toolkit/ for build systems
#   share/pkgconfig/ddprun.pc           share/cmake/ddprun/  find_package(ddprun)
#   lib/python3/dist-packages/ddprun.py, which Debian's python3 finds under /usr
#   share/ddprun/rust/         the crate for Rust, as sources
include(GNUInstallDirs)
set(package_dir ${CMAKE_SOURCE_DIR}/cmake/package)

# man_page(page component source): docs/man/<page>.in, with what `source` (a program, a header, or a page of docs/) says.
function(man_page page component source)
    softgpu_man_page(${page} ${CMAKE_SOURCE_DIR}/docs/man ${PROJECT_VERSION} ${component} ${source})
endfunction()

# ---- ddprun ----
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME ddprun)
install(TARGETS ddprun RUNTIME DESTINATION bin)
install(TARGETS shim engine check_engine scout files LIBRARY DESTINATION lib/ddprun)
install(TARGETS pmix_member LIBRARY DESTINATION lib/ddprun COMPONENT pmix)
install(FILES interpose/include/ddprun.h interpose/include/ddprun_torch.h interpose/include/ddprun_torch_sampler.h
    interpose/include/ddprun_torch_tensors.h interpose/include/ddprun_torch_unheld.h tools/scout/include/ddprun_lines.h DESTINATION include)
install(FILES interpose/python/ddprun.py DESTINATION lib/python3/dist-packages)
install(FILES interpose/rust/Cargo.toml interpose/rust/README.md LICENSE DESTINATION share/ddprun/rust)
install(DIRECTORY interpose/rust/src interpose/rust/examples interpose/rust/tests DESTINATION share/ddprun/rust)

configure_file(${package_dir}/ddprun.pc.in ${CMAKE_BINARY_DIR}/package/ddprun.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/ddprun.pc DESTINATION share/pkgconfig)
install(FILES ${package_dir}/modulefile DESTINATION share/modulefiles/ddprun RENAME ${PROJECT_VERSION})

include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/ddprunConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
install(FILES ${package_dir}/ddprunConfig.cmake ${CMAKE_BINARY_DIR}/package/ddprunConfigVersion.cmake
        DESTINATION share/cmake/ddprun)

man_page(ddprun.1 ddprun $<TARGET_FILE:ddprun>)
man_page(ddprun.h.3 ddprun ${CMAKE_SOURCE_DIR}/interpose/include/ddprun.h)
man_page(ddprun-troubleshooting.7 ddprun ${CMAKE_SOURCE_DIR}/docs/troubleshooting.md)
install(FILES launcher/ddprun.bash DESTINATION share/bash-completion/completions RENAME ddprun)
install(FILES launcher/ddprun.zsh DESTINATION share/zsh/site-functions RENAME _ddprun)
install(FILES launcher/ddprun.fish DESTINATION share/fish/vendor_completions.d)
install(FILES README.md CHANGES.md SECURITY.md DESTINATION share/doc/ddprun)
foreach(page annotations check clusters comparisons frameworks how-it-works insight install languages libtorch limits performance plan recipes samples scout trace
        troubleshooting wire)
    install(FILES docs/${page}.md DESTINATION share/doc/ddprun/docs)
endforeach()
install(FILES docs/pictures/report.png docs/pictures/timeline.png DESTINATION share/doc/ddprun/docs/pictures)
install(FILES softgpu/docs/softgpu.md softgpu/docs/ci.md DESTINATION share/doc/ddprun/softgpu/docs)
install(FILES samples/README.md DESTINATION share/doc/ddprun/samples)
install(DIRECTORY samples/cluster samples/recipes DESTINATION share/doc/ddprun/samples)
install(FILES LICENSE DESTINATION share/doc/ddprun RENAME copyright)

# ---- cmake --build build --target uninstall ----
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -D build=${CMAKE_BINARY_DIR} -P ${CMAKE_SOURCE_DIR}/cmake/Uninstall.cmake VERBATIM)

# ---- a wheel for Python: cmake --build build --target wheel ----
add_custom_target(packaged)
add_custom_target(wheel COMMAND python3 ${package_dir}/wheel.py ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/wheel VERBATIM)
foreach(part ddprun shim engine check_engine scout files pmix_member wire_kernels_gpu plan_kernels_gpu wire_kernels_cuda12 plan_kernels_cuda12 no_ptxas_12 man_ddprun.1 man_ddprun.h.3 man_ddprun-troubleshooting.7)
    if(TARGET ${part}) # kernels for GPUs need nvcc
        add_dependencies(packaged ${part})
    endif()
endforeach()
add_dependencies(wheel packaged)

# ---- packages: cpack --config build/CPackConfig.cmake ----
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_CONTACT "the developers of ddprun")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL ddprun pmix softgpu)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${SOFTGPU_LIBRARY_DIR})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DDPRUN_PACKAGE_NAME ddprun)
set(CPACK_DEBIAN_DDPRUN_PACKAGE_RECOMMENDS ddprun-pmix)
set(CPACK_DEBIAN_DDPRUN_PACKAGE_SUGGESTS ddprun-softgpu)
set(CPACK_COMPONENT_DDPRUN_DESCRIPTION
    "Starts a single-GPU CUDA trainer as many ranks and averages their gradients.
 The trainer is annotated by a header; its CUDA calls are watched, and gradients
 are reduced with NCCL while backward still runs.")
set(CPACK_DEBIAN_PMIX_PACKAGE_NAME ddprun-pmix)
set(CPACK_DEBIAN_PMIX_PACKAGE_DEPENDS "ddprun (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_PMIX_DESCRIPTION
    "ddprun under srun and mpirun: its client of PMIx.
 By it the hosts of a job of a cluster's launcher find each other. Jobs on one
 machine do not need it.")
set(CPACK_DEBIAN_SOFTGPU_PACKAGE_NAME ddprun-softgpu)
set(CPACK_DEBIAN_SOFTGPU_PACKAGE_DEPENDS g++)
set(CPACK_COMPONENT_SOFTGPU_DESCRIPTION
    "CPU stand-in for CUDA, to develop and test trainers without a GPU.
 Libraries with the interfaces of CUDA's and the compiler driver softgpu-cc.
 Compiling programs needs the headers of CUDA 13; running them does not.")
include(CPack)
