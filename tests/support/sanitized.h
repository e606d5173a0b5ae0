// WMTP_SANITIZED: built with the address or the thread sanitizer, which need address space of their
// own and end the process where they get none. Tests that limit it are left out then.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WMTP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WMTP_SANITIZED 1
#endif
#endif
