// Models in a bucket: of a folder the small files are copied here (configuration, tokenizer), of
// the weights headers and ranges are read where they are.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/weights/model_folder.h"

namespace wmtp::models {

// weights::locate_model; a URI stays as it is, without "/" at its end.
std::filesystem::path locate(const std::string& name, const weights::Environment& environment);

// A folder on this machine with the small files of one in a bucket; of an adapter's folder with all
// of them. Made once for a URI and removed when the process ends. BLOCKS. Error config where it is
// no folder of a model. THREADS: any.
std::filesystem::path copy_small_files(const std::filesystem::path& remote);

// Where the tokenizer's files of `name` can be opened: locate(), or such a copy.
std::filesystem::path locate_tokenizer(const std::string& name,
                                       const weights::Environment& environment);

}  // namespace wmtp::models
