"""Texts in the form of each kind of credential in credentials.yaml; none is real."""

import base64
from collections.abc import Mapping

CANARY = "hf_CANARYcanaryCANARYcanaryCANARY0123"
_WORD = "CANARYcanaryCANARYcanaryCANARYcanary0123"
_HEX = "c0de0123456789abcdef0123456789abcdef0123456789abcdef"
PREFIXED: Mapping[str, str] = {
    "Hugging Face": CANARY,
    "GitHub": f"ghp_{_WORD}",
    "GitLab": f"glrt-{_WORD}",
    "AWS": "AKIACANARYCANARY0123",
    "AWS Bedrock": f"ABSK{_WORD}",
    "Alibaba Cloud": "LTAI5tCANARYcanaryCANARY",
    "Tencent Cloud": f"AKID{_WORD}",
    "Volcano Engine": f"AKLT{_WORD}",
    "Google API key": "AIzaCANARYcanaryCANARYcanaryCANARY01234",
    "Google OAuth": f"GOCSPX-{_WORD}",
    "Azure client secret": f"abc8Q~{_WORD}",
    "Slack": "xapp-1-A0123456789-0123456789-CANARYcanary",
    "OpenAI, Anthropic, DeepSeek": "sk-ant-CANARYcanaryCANARY0123",
    "Stripe": f"sk_live_{_WORD}",
    "Groq": f"gsk_{_WORD}",
    "xAI": f"xai-{_WORD}",
    "Perplexity": f"pplx-{_WORD}",
    "Replicate": f"r8_{_WORD}",
    "RunPod": f"rpa_{_WORD}",
    "LangSmith": f"lsv2_pt_{_WORD}",
    "ModelScope": "ms-01234567-89ab-cdef-0123-CANARYcanary",
    "NVIDIA": f"nvapi-{_WORD}",
    "npm": f"npm_{_WORD}",
    "Docker Hub": f"dckr_pat_{_WORD}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{_WORD}",
    "Artifactory": f"AKCp{_WORD}{_WORD}",
    "Databricks": f"dapi{_HEX}",
    "HashiCorp Vault": f"hvs.{_WORD}",
    "DigitalOcean": f"dop_v1_{_HEX}",
    "SendGrid": f"SG.CANARYcanaryCANARYcan.{_WORD}",
    "Atlassian": f"ATATT3xFfGF{_WORD}",
    "Grafana": f"glsa_{_WORD}_01234567",
    "Doppler": f"dp.st.prd.{_WORD}",
    "Pulumi": f"pul-{_HEX}",
    "Sentry": f"sntrys_{_WORD}",
    "New Relic": "NRAK-CANARYCANARYCANARYCANARY",
    "Tailscale": f"tskey-auth-{_WORD}",
    "Postman": f"PMAK-{_WORD}",
    "age": "AGE-SECRET-KEY-1CANARYCANARYCANARYCANARYCANARY",
    "Telegram": f"123456789:AA{_WORD}",
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJDQU5BUlkifQ.CANARYcanary",
    "a private key in base64": base64.b64encode(
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nCANARYcanary\n"
    ).decode(),
}
"""By ``vendor``."""
ENCLOSED: Mapping[str, str] = {
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nCANARYcanaryCANARYcanary",
    "password of a URL": "https://me:CANARY%40canary@example.com/x",
    "token as the user of a URL": f"https://{_WORD}@sentry.example.com/1",
    "HTTP header": "Authorization: Basic CANARYcanary=",
    "bearer token": f"curl -H 'X-Auth: Bearer {_WORD}'",
    "webhook": "https://hooks.slack.com/services/T0/B0/CANARYcanary",
    "signature or token of a URL": "https://a.example.com/b?sv=1&sig=CANARYcanary%3D",
    "key of a URL": f"https://a.example.com/b?key={_WORD}",
    "connection string of Azure": f"AccountName=a;AccountKey={_WORD}==;EndpointSuffix=b",
    "key of an Azure account": f"{_WORD}{_WORD}canary==",
    "login of a registry": '{"auths": {"r.example.com": {"auth": "CANARYcanaryCANARY=="}}}',
}
"""By ``what``."""
MORE = (
    "xoxb-0123456789-CANARYcanary",
    "socks5h://me:CANARY%40canary@10.0.0.1:1080",
    "https://a.s3.amazonaws.com/b?X-Amz-Expires=9&X-Amz-Signature=0c0deCANARYcanary",
    "https://ci.example.com/build?token=CANARYcanary",
    "a line\nhf_CANARYcanaryCANARYcanary",
    "a\thf_CANARYcanaryCANARYcanary",
)
FORMS = (*PREFIXED.values(), *ENCLOSED.values(), *MORE)
