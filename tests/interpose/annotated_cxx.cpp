/* annotated_cxx.cpp - annotated.c as C++. */
#include "annotated.c"
