//! No room, no place, and files cut short.
