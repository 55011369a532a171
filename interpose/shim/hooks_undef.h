/* hooks_undef.h - ends one reading of hooks.def, so that another can begin. Included between them; has no guard. */
#undef OPERATION
#undef LAUNCH
#undef ALLOCATION
#undef ALLOCATION_SINGLE
#undef RELEASE
#undef RELEASE_SINGLE
#undef NOTIFICATION
#undef MODULE
#undef GRAPH
#undef GRAPH_STREAM
#undef RECORDED
#undef WAIT
#undef WAIT_SINGLE
