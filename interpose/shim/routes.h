/*
 * routes.h - the places of hooked functions in shim_routes[], generated from hooks.def: ROUTE_symbol.
 */
#ifndef DDPRUN_INTERPOSE_SHIM_ROUTES_H
#define DDPRUN_INTERPOSE_SHIM_ROUTES_H

#define OPERATION(symbol, twin, ...)    ROUTE_##symbol, ROUTE_##symbol##twin,
#define LAUNCH(symbol, twin, ...)       ROUTE_##symbol, ROUTE_##symbol##twin,
#define ALLOCATION(symbol, twin, ...)   ROUTE_##symbol, ROUTE_##symbol##twin,
#define RELEASE(symbol, twin, ...)      ROUTE_##symbol, ROUTE_##symbol##twin,
#define ALLOCATION_SINGLE(symbol, ...)  ROUTE_##symbol,
#define RELEASE_SINGLE(symbol, ...)     ROUTE_##symbol,
#define NOTIFICATION(symbol, ...)       ROUTE_##symbol,
#define MODULE(symbol, ...)             ROUTE_##symbol,
#define WAIT(symbol, twin, ...)         ROUTE_##symbol, ROUTE_##symbol##twin,
#define WAIT_SINGLE(symbol, ...)        ROUTE_##symbol,
#define GRAPH(symbol, ...)              ROUTE_##symbol,
#define GRAPH_STREAM(symbol, twin, ...) ROUTE_##symbol, ROUTE_##symbol##twin,
#define RECORDED(symbol, ...)           ROUTE_##symbol,
enum {
#include "interpose/shim/hooks.def"
    ROUTE_COUNT
};
#include "interpose/shim/hooks_undef.h"

#endif
