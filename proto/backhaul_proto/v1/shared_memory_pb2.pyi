from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SharedBuffer(_message.Message):
    __slots__ = ("segment", "offset", "bytes")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    segment: bytes
    offset: int
    bytes: int
    def __init__(self, segment: _Optional[bytes] = ..., offset: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SharedMemoryRequest(_message.Message):
    __slots__ = ("allocate", "free", "authenticate")
    ALLOCATE_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATE_FIELD_NUMBER: _ClassVar[int]
    allocate: AllocateSegment
    free: FreeSegment
    authenticate: Authenticate
    def __init__(self, allocate: _Optional[_Union[AllocateSegment, _Mapping]] = ..., free: _Optional[_Union[FreeSegment, _Mapping]] = ..., authenticate: _Optional[_Union[Authenticate, _Mapping]] = ...) -> None: ...

class SharedMemoryResponse(_message.Message):
    __slots__ = ("hello", "segment", "freed", "error", "authenticated")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    FREED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    hello: SharedMemoryHello
    segment: Segment
    freed: SegmentFreed
    error: SharedMemoryError
    authenticated: Authenticated
    def __init__(self, hello: _Optional[_Union[SharedMemoryHello, _Mapping]] = ..., segment: _Optional[_Union[Segment, _Mapping]] = ..., freed: _Optional[_Union[SegmentFreed, _Mapping]] = ..., error: _Optional[_Union[SharedMemoryError, _Mapping]] = ..., authenticated: _Optional[_Union[Authenticated, _Mapping]] = ...) -> None: ...

class SharedMemoryHello(_message.Message):
    __slots__ = ("version", "max_bytes", "max_segments", "authenticate")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATE_FIELD_NUMBER: _ClassVar[int]
    version: int
    max_bytes: int
    max_segments: int
    authenticate: bool
    def __init__(self, version: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_segments: _Optional[int] = ..., authenticate: bool = ...) -> None: ...

class Authenticate(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class Authenticated(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AllocateSegment(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("id", "bytes", "nonce")
    ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    bytes: int
    nonce: bytes
    def __init__(self, id: _Optional[bytes] = ..., bytes: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class FreeSegment(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    def __init__(self, id: _Optional[bytes] = ...) -> None: ...

class SegmentFreed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SharedMemoryError(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
