#!/usr/bin/env bash
# netns.sh PROGRAM... - runs tests of ranks (ranks.h) with the ranks in three network namespaces, each a host with an interface of its own on one bridge: real
# addresses, no Unix socket in common, and a link that can be cut. The default choice of the interface is the one under test: nothing says which to take.
#
# Needs the right to make namespaces; skipped by name where it is missing. Removes what it made, also when interrupted.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
prefix=sgn$$

clean() {
    local host
    for host in 0 1 2 s; do
        ip netns del "$prefix$host" 2>/dev/null || true
    done
}

command -v ip >/dev/null || skip "no ip command (iproute2)"
reason=$(ip netns add "${prefix}s" 2>&1) || skip "network namespaces are not allowed here: $reason"
at_exit clean
trap 'exit 1' INT TERM
reason=$(ip -n "${prefix}s" link add bridge type bridge 2>&1) || skip "no bridge in a network namespace: $reason"
ip -n "${prefix}s" link set bridge up
for host in 0 1 2; do
    ip netns add "$prefix$host"
    reason=$(ip -n "${prefix}s" link add "port$host" type veth peer name net0 netns "$prefix$host" 2>&1) ||
        skip "no virtual network device: $reason"
    ip -n "${prefix}s" link set "port$host" master bridge up
    ip -n "$prefix$host" link set lo up
    ip -n "$prefix$host" link set net0 up
    ip -n "$prefix$host" address add "10.77.0.$((host + 1))/24" dev net0
done

export TEST_NETWORKS=/run/netns/$prefix CK_FORK=no
# The ranks have left this namespace: the command names the one of the bridge.
export TEST_LINK_DOWN="ip -n ${prefix}s link set port1 nomaster" TEST_LINK_UP="ip -n ${prefix}s link set port1 master bridge"
unset NCCL_SOCKET_IFNAME NCCL_SOCKET_FAMILY NCCL_HOSTID
[ $# -gt 0 ] || complain "no program is named"
for program in "$@"; do
    case $program in
    *test_nccl_link) TEST_HOSTS=010 SOFTGPU_NCCL_SILENCE_S=2 "$program" ;;
    *) TEST_HOSTS=0120 "$program" ;;
    esac
done
finish "$# programs"
