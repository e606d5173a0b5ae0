// S3 as a configuration and the environment have it: the one place where the section storage.s3
// becomes options of the client.
#pragma once
#include <string_view>

#include "wmtp/config/checkpoint.h"
#include "wmtp/s3/options.h"

namespace wmtp::models {

// What the section says; what it leaves open (endpoint, region, profile) comes from the variables
// AWS_* and the profile, by the rules of s3::resolve_location. Nothing is checked here:
// s3::open_session does.
s3::Options s3_options(const config::S3& section, const http::Environment& environment);

// The same for an s3://bucket/prefix that a user named: bucket and prefix are those of the URI.
// Error config where it is none.
s3::Options s3_options_at(std::string_view uri, const config::S3& section,
                          const http::Environment& environment);

}  // namespace wmtp::models
