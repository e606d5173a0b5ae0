// The opcodes of Python's pickle, protocols 0 to 5, for messages.
#pragma once
#include <cstdint>
#include <string_view>

namespace wmtp::weights {

std::string_view pickle_opcode_name(std::uint8_t opcode);  // "" for a byte that is none

}  // namespace wmtp::weights
