"""Logins to Kubernetes by an issuer of the site's own (OpenID Connect)."""

from typing import Annotated

from pydantic import Field

from inventory.site.values import LOGIN_CLAIM, LOGIN_ISSUER, Section, Text


class Login(Section):
    """Users of Kubernetes log in at an issuer of the site's own, which signs their names and groups (OpenID Connect)."""

    issuer: Annotated[str, Field(pattern=LOGIN_ISSUER)] = Field(
        description="URL of the issuer, exactly as it stands in its tokens (iss), such as https://login.example.org/realms/hall."
    )
    audience: Text = Field(
        description="Client that tokens have to be for (aud): the ID that the issuer gave to this cluster."
    )
    user_claim: Annotated[str, Field(pattern=LOGIN_CLAIM)] = Field(
        default="preferred_username", description="Claim with the login name, as accounts have it in users."
    )
    groups_claim: Annotated[str, Field(pattern=LOGIN_CLAIM)] = Field(
        default="groups", description="Claim with the groups, as accounts have them in groups."
    )
    ca: Text | None = Field(
        default=None,
        description="Path of the authority's certificate that signed the issuer's, PEM (relative to this file, ~ is expanded); "
        "without it the controllers' own list.",
    )
