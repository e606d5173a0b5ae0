// Which limit stands behind a refusal: programs that run out of threads, memory or descriptors are
// told so by the kernel in three words that do not say whose rule it was.
#pragma once
#include <optional>
#include <string>

#include "wmtp/core/error.h"

namespace wmtp {

enum class Resource { threads, memory, descriptors };

// The limits on it that this process is under, with values: "RLIMIT_NPROC = 512, pids.max of the
// cgroup = 100". Those that are not set are left out; if none is, "no limit of this process".
std::string limits_on(Resource resource);

// Error config naming the limits, with what to raise: `fact` says what could not be had.
Error limit_error(Resource resource, const std::string& fact);

// The same for an exception that means it: std::bad_alloc, a thread that could not be made, an
// allocator's or a call's error text. Nothing for any other.
std::optional<Error> as_limit_error(const std::exception& thrown);

// Error config unless `count` more threads can be started just now. A library that cannot start
// its own ends the whole program.
void require_threads(int count);

// As many descriptors as the hard limit grants: the usual soft limit, 1024, is one for programs
// that cannot take more, and strangers at an open port could use them up.
void raise_descriptor_limit();

}  // namespace wmtp
