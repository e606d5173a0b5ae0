// Which tensors an export holds, under which names, in which files.
#pragma once
#include <string>
#include <vector>

#include "wmtp/exports/spec.h"
#include "wmtp/layout/unit_spec.h"
#include "wmtp/storage/safetensors_header.h"

namespace wmtp::exports {

struct PlannedFile {
  std::string name;
  storage::Metadata metadata;
};

struct PlannedTensor {
  layout::ParamSpec param;  // wmtp's name and the shape
  std::string stored_name;
  DType dtype = kFloat32;
  std::size_t file = 0;  // into ExportPlan::files
};

struct ExportPlan {
  std::vector<PlannedFile> files;
  std::vector<PlannedTensor> tensors;  // in the order of the layout
  std::uint64_t bytes() const;
};

// Error config for what the format cannot hold: a peft export without adapters, or of heads that
// are trained whole.
ExportPlan plan_export(const ExportSpec& spec);

// model.safetensors.index.json of the plan's weight files; empty where one file holds them all.
std::string index_text(const ExportPlan& plan);

}  // namespace wmtp::exports
