// What a GPU would answer with an error, a wrong number or silence ends the process here: a line to
// stderr names the kernel, the block and the thread.
#pragma once
#include <string>

#include "emulated/site.h"

namespace wmtp::emulated {

[[noreturn]] void fault(const std::string& what);
std::string text_of(Site site);

// For fault(): the launch that runs, and the kernel where its own name says more (template
// arguments). BORROWS the texts.
void name_launch(const char* kernel, Site site);
void name_kernel(const char* kernel);

}  // namespace wmtp::emulated
