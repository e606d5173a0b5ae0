// The records of a queue file (queue_log.h).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "wmtp/s3/queue/queue_log.h"

namespace wmtp::s3 {

// Each ends with a line feed.
std::string records_of(const QueueEntry& entry);
std::string begin_record(std::size_t file, const UploadState& state);  // without its parts
std::string part_record(std::size_t file, int number, const UploadState::Part& part);
std::string up_record(std::size_t file);
std::string pointer_record(std::string_view pointer);

// What all whole records from the first on say. Error data where the first one is none, is of a
// newer version, is not about `name`, or names files that are not below a folder.
QueueEntry parse_records(std::string_view text, std::string_view name);

}  // namespace wmtp::s3
