/*
 * stub_library.c - a library with nothing in it: plays the shim, the engine and the CUDA driver where run.sh only needs
 * them to be there, and to be seen in a process's map.
 */
__attribute__((visibility("default"))) int stub_library_is_here = 1;
