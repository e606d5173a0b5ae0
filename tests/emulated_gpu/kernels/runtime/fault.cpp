#include "emulated_gpu/kernels/runtime/fault.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "emulated/threads.h"

namespace wmtp::emulated {
namespace {

const char* running = "no kernel";
Site launched;

std::string text_of(const uint3& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

// What the compiler hands to the functions below (-fsanitize=alignment,bounds).
struct CompilerSite {
  const char* file;
  std::uint32_t line, column;
};
struct TypeText {
  std::uint16_t kind, info;
  char name[1];
};
struct MismatchData {
  CompilerSite site;
  const TypeText* type;
  unsigned char log_alignment, access;
};
struct OutOfBoundsData {
  CompilerSite site;
  const TypeText *array, *index;
};

std::string text_of(const CompilerSite& site) {
  return text_of(Site{site.file, static_cast<int>(site.line)});
}

}  // namespace

std::string text_of(Site site) {
  return std::string(site.file) + ":" + std::to_string(site.line);
}

void name_launch(const char* kernel, Site site) {
  running = kernel, launched = site;
}

void name_kernel(const char* kernel) {
  running = kernel;
}

void fault(const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "emulated GPU: %s launched at %s, block %s, thread %s: %s\n", running,
               text_of(launched).c_str(), text_of(blockIdx).c_str(), text_of(threadIdx).c_str(),
               what.c_str());
  std::abort();
}

// The compiler's checks call these by name; its own library, which has them too, knows nothing of
// kernels and threads.
extern "C" {
[[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(const MismatchData* data, void* address) {
  char place[32];
  std::snprintf(place, sizeof place, "%p", address);
  fault("misaligned access at " + text_of(data->site) + ": " + data->type->name + " at " + place +
        " needs a multiple of " + std::to_string(1u << data->log_alignment));
}

[[noreturn]] void __ubsan_handle_out_of_bounds_abort(const OutOfBoundsData* data,
                                                     std::uintptr_t index) {
  fault("index out of bounds at " + text_of(data->site) + ": element " +
        std::to_string(static_cast<std::intptr_t>(index)) + " of " + data->array->name);
}
}

}  // namespace wmtp::emulated
