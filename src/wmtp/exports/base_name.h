// How an adapter names the model it belongs to.
#pragma once
#include <filesystem>
#include <string>

namespace wmtp::exports {

// base_model_name_or_path of an adapter in the folder `out` whose base lies in `base`: "org/name"
// where that is the snapshot of the Hugging Face cache which the name stands for; relative to `out`
// where both lie in runs side by side, which are moved together; else absolute. Reads file names
// only.
std::string adapter_base_name(const std::filesystem::path& base, const std::filesystem::path& out);

}  // namespace wmtp::exports
